//! What records say: the changes to a cluster, in the order in which they were made, and the parts of a checkpoint.

use super::record::HEADER;
use crate::mon::{MapBytes, MonSettings};
use crate::osd::{Body, Group, Name, Parts, State, Transaction};
use onego_buf::Segment;
use onego_ceph::messages::LogEntry;
use onego_ceph::types::PgId;
use onego_msgr::addr::AddrVec;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// A life of a cluster: from a start to the end of the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Life {
    /// The first has number 1.
    pub(crate) number: u32,
    /// Where the monitor is reached.
    pub(crate) mon: AddrVec,
    /// Where the OSDs are reached, the first being number 0.
    pub(crate) osds: Vec<AddrVec>,
    /// Bytes that each OSD holds at most.
    pub(crate) memory_limit: u64,
}

impl Encode for Life {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.number);
        self.mon.encode(w);
        self.osds.encode(w);
        w.u64(self.memory_limit);
    }
}

impl Decode for Life {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            number: r.u32("life")?,
            mon: AddrVec::decode(r)?,
            osds: Vec::decode(r)?,
            memory_limit: r.u64("memory limit")?,
        })
    }
}

/// What a record says.
pub(crate) enum Entry {
    /// The cluster has started.
    Started(Life),
    /// The maps, all of them, and what else the monitor keeps: the first record of all, and of a checkpoint.
    Monitor { maps: MapBytes, settings: MonSettings },
    /// The OSDs went on by a new map, to which these changes lead; none: they looked again at the one they had.
    Maps(Vec<Vec<u8>>),
    /// What the monitor keeps beside its maps has changed.
    Settings(MonSettings),
    /// The cluster's log goes on with these entries.
    Log(Vec<LogEntry>),
    /// What a request did to an object, on these OSDs.
    Write { osds: Vec<i32>, transaction: Box<Transaction> },
    /// An OSD took objects of a group from another, up to `budget` of them.
    Recover { pg: PgId, source: i32, target: i32, budget: u32 },
    /// An OSD removed objects of a group that it no longer serves, up to `budget` of them.
    Purge { pg: PgId, osd: i32, budget: u32 },
    /// An OSD lost all that it had.
    Wipe { osd: i32 },
    /// Nothing, but that what was before is durable.
    Mark,
    /// The placement groups, in a checkpoint.
    Groups(Vec<u8>),
    /// A placement group of an OSD, in a checkpoint.
    Group { osd: i32, pg: PgId, group: Box<Group> },
    /// An object of an OSD, in a checkpoint.
    Object { osd: i32, pool: i64, name: Name, state: State },
    /// A checkpoint is whole.
    End,
}

/// What stands for each kind of [`Entry`]. The numbers are part of the format.
mod tag {
    pub(super) const STARTED: u8 = 1;
    pub(super) const MONITOR: u8 = 2;
    pub(super) const MAPS: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const WRITE: u8 = 5;
    pub(super) const RECOVER: u8 = 6;
    pub(super) const PURGE: u8 = 7;
    pub(super) const WIPE: u8 = 8;
    pub(super) const MARK: u8 = 9;
    pub(super) const LOG: u8 = 10;
    pub(super) const GROUPS: u8 = 16;
    /// A group before format 5, when objects had no clones.
    pub(super) const GROUP_WITHOUT_CLONES: u8 = 17;
    pub(super) const OBJECT: u8 = 18;
    pub(super) const END: u8 = 19;
    pub(super) const GROUP: u8 = 20;
    /// An object that knows of snapshots.
    pub(super) const OBJECT_WITH_SNAPSHOTS: u8 = 21;
}

impl Entry {
    /// The entry as the body of a record, with room for the record's header before it.
    pub(crate) fn encode(&self) -> Body {
        let mut body = Body { front: Writer::with_capacity(256), ..Body::default() };
        let w = &mut body.front;
        w.put(&[0; HEADER]);
        match self {
            Self::Started(life) => {
                w.u8(tag::STARTED);
                life.encode(w);
            }
            Self::Monitor { maps, settings } => {
                w.u8(tag::MONITOR);
                w.blob(&maps.base);
                encode_blobs(&maps.changes, w);
                settings.encode(w);
            }
            Self::Maps(changes) => {
                w.u8(tag::MAPS);
                encode_blobs(changes, w);
            }
            Self::Settings(settings) => {
                w.u8(tag::SETTINGS);
                settings.encode(w);
            }
            Self::Log(entries) => {
                w.u8(tag::LOG);
                entries.encode(w);
            }
            Self::Write { osds, transaction } => {
                w.u8(tag::WRITE);
                osds.encode(w);
                transaction.encode(&mut body);
            }
            Self::Recover { pg, source, target, budget } => {
                w.u8(tag::RECOVER);
                pg.encode(w);
                w.i32(*source);
                w.i32(*target);
                w.u32(*budget);
            }
            Self::Purge { pg, osd, budget } => {
                w.u8(tag::PURGE);
                pg.encode(w);
                w.i32(*osd);
                w.u32(*budget);
            }
            Self::Wipe { osd } => {
                w.u8(tag::WIPE);
                w.i32(*osd);
            }
            Self::Mark => w.u8(tag::MARK),
            Self::Groups(groups) => {
                w.u8(tag::GROUPS);
                w.blob(groups);
            }
            Self::Group { osd, pg, group } => {
                w.u8(tag::GROUP);
                w.i32(*osd);
                pg.encode(w);
                group.encode(w);
            }
            Self::Object { osd, pool, name, state } => {
                w.u8(if state.knows_snapshots() { tag::OBJECT_WITH_SNAPSHOTS } else { tag::OBJECT });
                w.i32(*osd);
                w.i64(*pool);
                name.encode(w);
                state.encode(&mut body);
            }
            Self::End => w.u8(tag::END),
        }
        body
    }

    /// Reads the body of a record.
    pub(crate) fn decode(body: &Segment) -> Decoded<Self> {
        let mut parts = Parts::new(body);
        let r = &mut parts.front;
        let entry = match r.u8("kind of a record")? {
            tag::STARTED => Self::Started(Life::decode(r)?),
            tag::MONITOR => {
                let maps = MapBytes { base: r.blob("map")?.to_vec(), changes: decode_blobs(r)? };
                Self::Monitor { maps, settings: MonSettings::decode(r)? }
            }
            tag::MAPS => Self::Maps(decode_blobs(r)?),
            tag::SETTINGS => Self::Settings(MonSettings::decode(r)?),
            tag::LOG => Self::Log(Vec::decode(r)?),
            tag::WRITE => {
                let osds = Vec::decode(r)?;
                Self::Write { osds, transaction: Box::new(Transaction::decode(&mut parts)?) }
            }
            tag::RECOVER => Self::Recover {
                pg: PgId::decode(r)?,
                source: r.i32("OSD")?,
                target: r.i32("OSD")?,
                budget: r.u32("number of places")?,
            },
            tag::PURGE => {
                Self::Purge { pg: PgId::decode(r)?, osd: r.i32("OSD")?, budget: r.u32("number of places")? }
            }
            tag::WIPE => Self::Wipe { osd: r.i32("OSD")? },
            tag::MARK => Self::Mark,
            tag::GROUPS => Self::Groups(r.blob("placement groups")?.to_vec()),
            kind @ (tag::GROUP | tag::GROUP_WITHOUT_CLONES) => {
                let (osd, pg) = (r.i32("OSD")?, PgId::decode(r)?);
                let group =
                    if kind == tag::GROUP { Group::decode(r)? } else { Group::decode_without_clones(r)? };
                Self::Group { osd, pg, group: Box::new(group) }
            }
            kind @ (tag::OBJECT | tag::OBJECT_WITH_SNAPSHOTS) => {
                let (osd, pool) = (r.i32("OSD")?, r.i64("pool")?);
                let name = Name::decode(r)?;
                Self::Object {
                    osd,
                    pool,
                    name,
                    state: State::decode(&mut parts, kind == tag::OBJECT_WITH_SNAPSHOTS)?,
                }
            }
            tag::END => Self::End,
            other => return Err(DecodeError::Invalid { what: "kind of a record", value: other.into() }),
        };
        parts.finish()?;
        Ok(entry)
    }
}

fn encode_blobs(blobs: &[Vec<u8>], w: &mut Writer) {
    w.count(blobs.len());
    blobs.iter().for_each(|blob| w.blob(blob));
}

fn decode_blobs(r: &mut Reader<'_>) -> Decoded<Vec<Vec<u8>>> {
    let count = r.count(4, "changes of a map")?;
    (0..count).map(|_| Ok(r.blob("change of a map")?.to_vec())).collect()
}
