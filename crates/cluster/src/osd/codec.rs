//! What an OSD keeps, as bytes: transactions, objects, and what it knows of its placement groups.
//!
//! The bytes of objects stand behind everything else ([`Body::payload`]), in the order in which they are named, so that
//! they are written from where they lie and read into memory that objects can keep.

use super::duplicates::Done;
use super::group::{Group, Missing};
use super::store::object::{ObjectClone, State};
use super::store::{Contents, Name};
use super::transaction::{Mutation, Transaction};
use onego_buf::{List, Segment};
use onego_ceph::messages::{ObjectName, OpResult};
use onego_ceph::osdmap::IntervalSet;
use onego_ceph::types::{EVersion, PgId, ReqId, Utime};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// What is written: small things, and behind them the bytes of objects.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) front: Writer,
    pub(crate) payload: List,
}

/// Bytes of objects from which on they stand at the beginning of a block: to copy fewer costs less than to write the zeros
/// before them.
const ALIGNED: usize = 64 << 10;

impl Body {
    /// Do the bytes of objects begin at a block? From [`ALIGNED`] bytes on they do, and are written from where they lie.
    pub(crate) fn is_aligned(&self) -> bool {
        self.payload.len() >= ALIGNED
    }

    /// Puts zeros before the bytes of objects.
    pub(crate) fn align(&mut self, zeros: &[u8]) {
        debug_assert!(self.is_aligned());
        self.front.put(zeros);
    }
}

/// What is read: small things first; once they are read, what is left are the bytes of objects.
pub(crate) struct Parts<'a> {
    pub(crate) front: Reader<'a>,
    whole: &'a Segment,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(whole: &'a Segment) -> Self {
        Self { front: Reader::new(whole), whole }
    }

    /// Skips the zeros that may stand before the `len` bytes of objects which are left: see [`Body::align`].
    fn skip_to_payload(&mut self, len: u64) -> Decoded<()> {
        let zeros = (self.front.left() as u64).saturating_sub(len);
        if len < ALIGNED as u64 || zeros == 0 {
            return Ok(());
        }
        let what = "zeros before bytes of objects";
        let zeros = self.front.take(zeros as usize, what)?;
        match zeros.iter().find(|byte| **byte != 0) {
            Some(byte) => Err(DecodeError::Invalid { what, value: u64::from(*byte) }),
            None => Ok(()),
        }
    }

    /// The next bytes of objects.
    fn payload(&mut self, len: u64) -> Decoded<List> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let at = self.whole.len() - self.front.left();
        self.front.take(len, "bytes of an object")?;
        Ok(self.whole.slice(at..at + len).into())
    }

    /// Everything has been read.
    pub(crate) fn finish(self) -> Decoded<()> {
        self.front.finish("record")
    }
}

impl Encode for Name {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.hash);
        w.blob(&self.namespace);
        w.blob(&self.key);
        w.blob(&self.name);
    }
}

impl Decode for Name {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            hash: r.u32("hash of an object")?,
            namespace: r.blob("namespace")?.to_vec(),
            key: r.blob("key of an object")?.to_vec(),
            name: ObjectName::new(r.blob("name of an object")?),
        })
    }
}

impl Encode for Done {
    fn encode(&self, w: &mut Writer) {
        w.i32(self.result);
        self.version.encode(w);
        w.u64(self.user_version);
        // One more than there are; 0: nobody wants to know.
        w.count(self.ops.as_ref().map_or(0, |ops| ops.len() + 1));
        for op in self.ops.iter().flat_map(|ops| ops.iter()) {
            w.u16(op.code);
            w.i32(op.result);
            w.count(op.output.len());
            op.output.segments().for_each(|part| w.put(part));
        }
    }
}

impl Decode for Done {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let result = r.i32("result")?;
        let version = EVersion::decode(r)?;
        let user_version = r.u64("version of an object")?;
        let ops = match r.u32("number of results")? {
            0 => None,
            more => {
                let results = (1..more).map(|_| {
                    let (code, result) = (r.u16("operation")?, r.i32("result")?);
                    Ok(OpResult { code, result, output: r.blob("output")?.to_vec().into() })
                });
                Some(Box::new(results.collect::<Decoded<_>>()?))
            }
        };
        Ok(Self { result, version, user_version, ops })
    }
}

/// What stands for each kind of [`Mutation`]. The numbers are part of the format.
mod tag {
    pub(super) const CREATE: u8 = 1;
    pub(super) const DELETE: u8 = 2;
    pub(super) const WRITE: u8 = 3;
    pub(super) const GROW_TO: u8 = 4;
    pub(super) const TRUNCATE: u8 = 5;
    pub(super) const ZERO: u8 = 6;
    pub(super) const SET_XATTR: u8 = 7;
    pub(super) const REMOVE_XATTR: u8 = 8;
    pub(super) const OMAP_SET: u8 = 9;
    pub(super) const OMAP_REMOVE: u8 = 10;
    pub(super) const OMAP_REMOVE_RANGE: u8 = 11;
    pub(super) const OMAP_SET_HEADER: u8 = 12;
    pub(super) const OMAP_CLEAR: u8 = 13;
    pub(super) const STAMP: u8 = 14;
    pub(super) const TOUCH: u8 = 15;
    pub(super) const MAKE_CLONE: u8 = 16;
    pub(super) const SNAP_SEQ: u8 = 17;
    pub(super) const ROLL_BACK: u8 = 18;
    pub(super) const TRIM: u8 = 19;
}

impl Mutation {
    fn encode(&self, to: &mut Body) {
        let w = &mut to.front;
        match self {
            Self::Create => w.u8(tag::CREATE),
            Self::Delete => w.u8(tag::DELETE),
            Self::Write { offset, data } => {
                w.u8(tag::WRITE);
                w.u64(*offset);
                w.u64(data.len() as u64);
                data.segments().for_each(|part| to.payload.push(part.clone()));
            }
            Self::GrowTo { size } => {
                w.u8(tag::GROW_TO);
                w.u64(*size);
            }
            Self::Truncate { size } => {
                w.u8(tag::TRUNCATE);
                w.u64(*size);
            }
            Self::Zero { offset, len } => {
                w.u8(tag::ZERO);
                w.u64(*offset);
                w.u64(*len);
            }
            Self::SetXattr { name, value } => {
                w.u8(tag::SET_XATTR);
                w.blob(name);
                w.blob(value);
            }
            Self::RemoveXattr { name } => {
                w.u8(tag::REMOVE_XATTR);
                w.blob(name);
            }
            Self::OmapSet { key, value } => {
                w.u8(tag::OMAP_SET);
                w.blob(key);
                w.blob(value);
            }
            Self::OmapRemove { key } => {
                w.u8(tag::OMAP_REMOVE);
                w.blob(key);
            }
            Self::OmapRemoveRange { from, to } => {
                w.u8(tag::OMAP_REMOVE_RANGE);
                w.blob(from);
                w.blob(to);
            }
            Self::OmapSetHeader { header } => {
                w.u8(tag::OMAP_SET_HEADER);
                w.blob(header);
            }
            Self::OmapClear => w.u8(tag::OMAP_CLEAR),
            Self::Stamp { version } => {
                w.u8(tag::STAMP);
                w.u64(*version);
            }
            Self::Touch { mtime } => {
                w.u8(tag::TOUCH);
                mtime.encode(w);
            }
            Self::MakeClone { id, snaps } => {
                w.u8(tag::MAKE_CLONE);
                w.u64(*id);
                snaps.encode(w);
            }
            Self::SnapSeq { seq } => {
                w.u8(tag::SNAP_SEQ);
                w.u64(*seq);
            }
            Self::RollBack { id } => {
                w.u8(tag::ROLL_BACK);
                w.u64(*id);
            }
            Self::Trim { snaps } => {
                w.u8(tag::TRIM);
                snaps.encode(w);
            }
        }
    }

    /// Reads a change; of what it writes, only how much that is, which is added to `lens`.
    fn decode(r: &mut Reader<'_>, lens: &mut Vec<u64>) -> Decoded<Self> {
        let what = "change of an object";
        Ok(match r.u8(what)? {
            tag::CREATE => Self::Create,
            tag::DELETE => Self::Delete,
            tag::WRITE => {
                let offset = r.u64(what)?;
                lens.push(r.u64(what)?);
                Self::Write { offset, data: List::new() }
            }
            tag::GROW_TO => Self::GrowTo { size: r.u64(what)? },
            tag::TRUNCATE => Self::Truncate { size: r.u64(what)? },
            tag::ZERO => Self::Zero { offset: r.u64(what)?, len: r.u64(what)? },
            tag::SET_XATTR => Self::SetXattr { name: r.blob(what)?.to_vec(), value: r.blob(what)?.to_vec() },
            tag::REMOVE_XATTR => Self::RemoveXattr { name: r.blob(what)?.to_vec() },
            tag::OMAP_SET => Self::OmapSet { key: r.blob(what)?.to_vec(), value: r.blob(what)?.to_vec() },
            tag::OMAP_REMOVE => Self::OmapRemove { key: r.blob(what)?.to_vec() },
            tag::OMAP_REMOVE_RANGE => {
                Self::OmapRemoveRange { from: r.blob(what)?.to_vec(), to: r.blob(what)?.to_vec() }
            }
            tag::OMAP_SET_HEADER => Self::OmapSetHeader { header: r.blob(what)?.to_vec() },
            tag::OMAP_CLEAR => Self::OmapClear,
            tag::STAMP => Self::Stamp { version: r.u64(what)? },
            tag::TOUCH => Self::Touch { mtime: Utime::decode(r)? },
            tag::MAKE_CLONE => Self::MakeClone { id: r.u64(what)?, snaps: Vec::decode(r)? },
            tag::SNAP_SEQ => Self::SnapSeq { seq: r.u64(what)? },
            tag::ROLL_BACK => Self::RollBack { id: r.u64(what)? },
            tag::TRIM => Self::Trim { snaps: Vec::decode(r)? },
            other => return Err(DecodeError::Invalid { what, value: other.into() }),
        })
    }
}

impl Transaction {
    pub(crate) fn encode(&self, to: &mut Body) {
        let w = &mut to.front;
        self.pg.encode(w);
        self.object.encode(w);
        // No change has the version 0.
        self.version.unwrap_or_default().encode(w);
        // No request has the name of nobody.
        let nobody = (ReqId::default(), Done::default());
        let (reqid, done) = self.outcome.as_ref().unwrap_or(&nobody);
        reqid.encode(w);
        done.encode(w);
        w.count(self.mutations.len());
        self.mutations.iter().for_each(|mutation| mutation.encode(to));
    }

    pub(crate) fn decode(parts: &mut Parts<'_>) -> Decoded<Self> {
        let r = &mut parts.front;
        let pg = PgId::decode(r)?;
        let object = Name::decode(r)?;
        let version = Some(EVersion::decode(r)?).filter(|version| *version != EVersion::default());
        let outcome = Some((ReqId::decode(r)?, Done::decode(r)?));
        let outcome = outcome.filter(|(reqid, _)| *reqid != ReqId::default());
        let count = r.count(1, "changes of an object")?;
        let mut lens = Vec::new();
        let mut mutations =
            (0..count).map(|_| Mutation::decode(r, &mut lens)).collect::<Decoded<Vec<Mutation>>>()?;
        parts.skip_to_payload(lens.iter().fold(0, |sum, len| sum.saturating_add(*len)))?;
        let mut lens = lens.into_iter();
        for mutation in &mut mutations {
            if let Mutation::Write { data, .. } = mutation {
                *data = parts.payload(lens.next().unwrap_or(0))?;
            }
        }
        Ok(Self { pg, object, version, mutations, outcome })
    }
}

/// Bytes of an object that are there: pairs of offset and length.
type Runs = Vec<(u64, u64)>;

impl State {
    /// Writes the object. Its clones, if it knows of snapshots, come after it, the newest first, each with the bytes alone that
    /// the one before does not have.
    pub(crate) fn encode(&self, to: &mut Body) {
        self.encode_part(self.runs(0, u64::MAX), to);
        if !self.knows_snapshots() {
            return;
        }
        to.front.bool(self.exists);
        to.front.u64(self.snap_seq);
        to.front.count(self.clone_count() as usize);
        for clone in self.clones() {
            to.front.u64(clone.id);
            clone.snaps.encode(&mut to.front);
            clone.overlap.encode(&mut to.front);
            clone.state.encode_part(clone.own_runs(), to);
        }
    }

    /// Writes the object without its clones, and of its bytes these.
    fn encode_part(&self, runs: Runs, to: &mut Body) {
        let w = &mut to.front;
        w.u64(self.size);
        self.mtime.encode(w);
        w.u64(self.version);
        self.meta().xattrs().encode(w);
        self.meta().omap().encode(w);
        w.blob(self.meta().header());
        runs.encode(w);
        let no_holes = Segment::from_static(b"");
        for (offset, len) in runs {
            to.payload.append(self.read(offset, len, &no_holes));
        }
    }

    /// Reads an object, which exists unless it `knows_snapshots` and says otherwise.
    pub(crate) fn decode(parts: &mut Parts<'_>, knows_snapshots: bool) -> Decoded<Self> {
        let r = &mut parts.front;
        let (mut state, runs) = Self::decode_part(r)?;
        let mut clones = Vec::new();
        if knows_snapshots {
            state.exists = r.bool("existence of an object")?;
            state.snap_seq = r.u64("newest snapshot of an object")?;
            for _ in 0..r.count(1, "clones of an object")? {
                let (id, snaps, overlap) =
                    (r.u64("clone of an object")?, Vec::decode(r)?, IntervalSet::decode(r)?);
                let (state, runs) = Self::decode_part(r)?;
                clones.push((ObjectClone::new(id, snaps, overlap, state), runs));
            }
        }
        let all = runs.iter().chain(clones.iter().flat_map(|(_, runs)| runs));
        parts.skip_to_payload(all.fold(0, |sum, (_, len)| sum.saturating_add(*len)))?;
        state.decode_data(runs, parts)?;
        let mut decoded: Vec<ObjectClone> = Vec::with_capacity(clones.len());
        for (mut clone, runs) in clones {
            decoded.last().map_or(&state, |newer| &newer.state).share_overlap(&mut clone)?;
            clone.state.decode_data(runs, parts)?;
            decoded.push(clone);
        }
        decoded.into_iter().rev().for_each(|clone| state.push_clone(clone));
        Ok(state)
    }

    fn decode_part(r: &mut Reader<'_>) -> Decoded<(Self, Runs)> {
        let mut state = Self::default();
        state.create();
        state.size = r.u64("size of an object")?;
        state.mtime = Utime::decode(r)?;
        state.version = r.u64("version of an object")?;
        for _ in 0..r.count(8, "attributes")? {
            state.set_xattr(Vec::decode(r)?, Vec::decode(r)?);
        }
        for _ in 0..r.count(8, "entries of a map")? {
            let key = r.blob("key of a map")?.to_vec();
            state.omap_set(key, r.blob("value of a map")?.to_vec());
        }
        let header = r.blob("header of a map")?;
        if !header.is_empty() {
            state.omap_set_header(header.to_vec());
        }
        Ok((state, Runs::decode(r)?))
    }

    /// Reads these bytes of the object.
    fn decode_data(&mut self, runs: Runs, parts: &mut Parts<'_>) -> Decoded<()> {
        for (offset, len) in runs {
            if offset.checked_add(len).is_none_or(|end| end > self.size) {
                let (what, bound) = ("bytes of an object", self.size);
                return Err(DecodeError::OverBound { what, value: len, bound });
            }
            self.write(offset, parts.payload(len)?);
        }
        Ok(())
    }
}

impl Encode for Missing {
    fn encode(&self, w: &mut Writer) {
        self.places.encode(w);
        w.u64(self.from);
    }
}

impl Decode for Missing {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { places: Decode::decode(r)?, from: r.u64("end of a backfill")? })
    }
}

impl Encode for Group {
    fn encode(&self, w: &mut Writer) {
        self.version.encode(w);
        self.tail.encode(w);
        w.count(self.log.len());
        self.log.iter().for_each(|change| change.encode(w));
        self.outcomes.encode(w);
        self.missing.encode(w);
        w.u64(self.contents.objects);
        w.u64(self.contents.bytes);
        w.u64(self.contents.clones);
    }
}

impl Decode for Group {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let mut group = Self::decode_without_clones(r)?;
        group.contents.clones = r.u64("clones of a group")?;
        Ok(group)
    }
}

impl Group {
    /// Reads a group of a time when objects had no clones.
    pub(crate) fn decode_without_clones(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            version: EVersion::decode(r)?,
            tail: EVersion::decode(r)?,
            log: Vec::decode(r)?.into(),
            outcomes: Decode::decode(r)?,
            missing: Missing::decode(r)?,
            contents: Contents {
                objects: r.u64("objects of a group")?,
                bytes: r.u64("bytes of a group")?,
                clones: 0,
            },
        })
    }
}
