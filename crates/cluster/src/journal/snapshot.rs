//! All that a cluster keeps, as it is at one moment: what is read from a data directory, and what a checkpoint has.

use super::entry::{Entry, Life};
use crate::groups::{Groups, Step, follow};
use crate::mon::{MAX_LOG_ENTRIES, MapHistory, MonSettings};
use crate::osd::{self, Group, Name, Osd, Replicas, State, Transaction};
use onego_ceph::messages::LogEntry;
use onego_ceph::types::PgId;
use onego_msgr::encoding::Encode as _;
use onego_wire::{DecodeError, Decoded};

/// All that a cluster keeps.
pub(crate) struct Kept {
    pub(crate) maps: MapHistory,
    pub(crate) settings: MonSettings,
    /// The newest entries of the cluster's log.
    pub(crate) log: Vec<LogEntry>,
    /// The last life of the cluster.
    pub(crate) life: Life,
    pub(crate) osds: Vec<Osd>,
    pub(crate) groups: Groups,
}

fn no_such(what: &'static str, value: i32) -> DecodeError {
    DecodeError::Invalid { what, value: u64::from(value.unsigned_abs()) }
}

impl Kept {
    /// What a cluster has of which only the monitor knows something.
    pub(crate) fn new(maps: MapHistory, settings: MonSettings, config: &osd::Config) -> Self {
        let osds = maps.newest().osd_state.iter().map(|_| {
            let mut osd = Osd::new(config.clone());
            osd.map_changed(maps.newest());
            osd
        });
        Self {
            osds: osds.collect(),
            maps,
            settings,
            log: Vec::new(),
            life: Life::default(),
            groups: Groups::default(),
        }
    }

    fn osd(&mut self, id: i32) -> Decoded<&mut Osd> {
        let osd = usize::try_from(id).ok().and_then(|at| self.osds.get_mut(at));
        osd.ok_or(no_such("number of an OSD", id))
    }

    /// Does again what an entry says.
    pub(crate) fn apply(&mut self, entry: Entry) -> Decoded<()> {
        match entry {
            Entry::Started(life) => self.life = life,
            Entry::Maps(changes) => {
                self.maps.replay(&changes)?;
                follow(self.maps.newest(), &mut self.groups, &mut self.osds);
            }
            Entry::Settings(settings) => self.settings = settings,
            Entry::Log(entries) => {
                self.log.extend(entries);
                let surplus = self.log.len().saturating_sub(MAX_LOG_ENTRIES);
                self.log.drain(..surplus);
            }
            Entry::Write { osds, transaction } => self.write(&osds, &transaction)?,
            Entry::Recover { pg, source, target, budget } => {
                let step = Step { pg, source, target, budget: budget as usize };
                let pool = self.maps.newest().pools.get(&pg.pool).ok_or(no_such("pool", pg.pool as i32))?;
                step.take(pool, &mut self.groups, &mut self.osds)
                    .ok_or(no_such("number of an OSD", source))?;
            }
            Entry::Purge { pg, osd, budget } => {
                let pool = self.maps.newest().pools.get(&pg.pool).cloned();
                let pool = pool.ok_or(no_such("pool", pg.pool as i32))?;
                self.osd(osd)?.purge(pg, &pool, budget as usize);
            }
            Entry::Wipe { osd } => {
                self.osd(osd)?.wipe();
                self.groups.lost(osd);
            }
            Entry::Groups(bytes) => self.groups = Groups::restore(&bytes, self.maps.newest())?,
            Entry::Group { osd, pg, group } => self.osd(osd)?.restore_group(pg, *group),
            Entry::Object { osd, pool, name, state } => self.restore_object(osd, pool, &name, state)?,
            Entry::Mark | Entry::End => {}
            Entry::Monitor { .. } => {
                return Err(DecodeError::Invalid { what: "kind of a record", value: 0 });
            }
        }
        Ok(())
    }

    /// Does again what a request did: the first of these OSDs was its group's primary.
    fn write(&mut self, osds: &[i32], transaction: &Transaction) -> Decoded<()> {
        let Some((&primary, others)) = osds.split_first() else { return Ok(()) };
        let (pg, object) = (transaction.pg, transaction.object.in_pool(transaction.pg.pool));
        let replicas = Replicas::let_go(&mut self.osds, primary, others, pg, &object)
            .ok_or(no_such("number of an OSD", primary))?;
        self.osd(primary)?.apply(transaction, 0);
        replicas.follow(&mut self.osds, Some(transaction), 0);
        Ok(())
    }

    /// An object was on an OSD. If one that was read before has the same, they share its memory, as they did.
    fn restore_object(&mut self, osd: i32, pool: i64, name: &Name, mut state: State) -> Decoded<()> {
        self.osd(osd)?;
        let _shares =
            self.osds.iter().take(osd as usize).any(|other| other.share_if_same(pool, name, &mut state));
        self.osd(osd)?.restore_object(pool, name, state);
        Ok(())
    }

    /// The OSD that holds more than it may, if there is one.
    pub(crate) fn overfull(&self) -> Option<(usize, osd::Usage)> {
        let usages = self.osds.iter().map(Osd::usage).enumerate();
        usages.into_iter().find(|(_, usage)| usage.used > usage.limit)
    }
}

/// All that a cluster keeps, as it was before a record. Memory is shared with the cluster, which goes on.
pub struct Snapshot {
    /// The first record whose effects are not in it.
    pub(crate) before: u64,
    monitor: Vec<Entry>,
    osds: Vec<OsdSnapshot>,
}

struct OsdSnapshot {
    groups: Vec<(PgId, Group)>,
    objects: Vec<(i64, Name, State)>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot(before {})", self.before)
    }
}

impl Snapshot {
    /// The first record whose effects are not in it: the new log begins with it.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// What there is before a record.
    pub(crate) fn new<'a>(
        before: u64,
        (maps, settings, log): (&MapHistory, MonSettings, Vec<LogEntry>),
        life: Life,
        groups: &Groups,
        osds: impl Iterator<Item = &'a Osd>,
    ) -> Self {
        let monitor = vec![
            Entry::Monitor { maps: maps.kept(), settings },
            Entry::Log(log),
            Entry::Started(life),
            Entry::Groups(groups.to_bytes()),
        ];
        let osds = osds.map(|osd| OsdSnapshot {
            groups: osd.groups_as_they_are().collect(),
            objects: osd.objects().collect(),
        });
        Self { before, monitor, osds: osds.collect() }
    }

    /// All of it, in the order in which it is read again.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = Entry> {
        let osds = (0..).zip(self.osds).flat_map(|(osd, OsdSnapshot { groups, objects })| {
            let groups =
                groups.into_iter().map(move |(pg, group)| Entry::Group { osd, pg, group: Box::new(group) });
            let objects =
                objects.into_iter().map(move |(pool, name, state)| Entry::Object { osd, pool, name, state });
            groups.chain(objects)
        });
        self.monitor.into_iter().chain(osds).chain([Entry::End])
    }
}
