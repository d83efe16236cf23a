//! Carries out the operations of a request on one object.
//!
//! Source for what each does in which case: ceph `src/osd/PrimaryLogPG.cc`, do_osd_ops.

use super::class::{self, Context};
use super::errno::{Errno, Outcome};
use super::session::Origin;
use super::store::ObjectId;
use super::store::extent::{MAX_OBJECT_SIZE, check_extent};
use super::store::object::State;
use super::store::{checksum, compare, tmap};
use super::transaction::Editor;
use super::watch::{NotifyCall, WatchKey, Watches};
use onego_buf::{List, Segment};
use onego_ceph::ops::{ChecksumKind, Op, Stat, WatchOp};
use onego_ceph::types::Utime;
use onego_msgr::encoding::Encode;
use onego_wire::{Reader, Time, Writer};
use std::collections::BTreeSet;

/// Longest name of an attribute (`osd_max_attr_name_len`). A value is bound by what a request may bring, as it is with
/// Ceph (`osd_max_attr_size` is 0).
const MAX_XATTR_NAME: usize = 100;

/// Most entries of a map in one reply (`osd_max_omap_entries_per_request`).
const MAX_OMAP_ENTRIES: u64 = 1024;

/// Most bytes of a map in one reply (`osd_max_omap_bytes_per_request` is a gigabyte; a reply here stays in memory).
pub(super) const MAX_OMAP_BYTES: usize = 16 << 20;

/// Payloads from this size on are dropped if writes are to go nowhere. Smaller ones are what programs find their way
/// by: headers, ids, the notes of benchmarks.
const NULL_WRITE_MIN: usize = 4096;

/// What is done once a request has succeeded as a whole.
pub(super) enum Effect {
    /// A client watches.
    Watch { key: WatchKey, timeout: u32, pings: bool },
    /// A client watches no more.
    Unwatch(WatchKey),
    /// The object is gone, and its watches with it.
    Gone,
    /// All who watch are told.
    Notify(NotifyCall),
    /// A watcher answers a notification.
    Acknowledge { id: u64, key: WatchKey, reply: Vec<u8> },
}

/// Carries out operations on an object.
pub(super) struct Execution<'a> {
    pub(super) now: Time,
    pub(super) origin: &'a Origin,
    pub(super) epoch: u32,
    pub(super) null_writes: bool,
    pub(super) id: ObjectId,
    pub(super) state: Editor<'a>,
    pub(super) zeros: &'a Segment,
    pub(super) watches: &'a mut Watches,
    /// Sources of the request's `copy_from` operations, in their order.
    pub(super) copies: std::slice::Iter<'a, Outcome<State>>,
    /// Output of the operation if it fails.
    pub(super) error_output: List,
    /// Number of the operation that is carried out, from 1.
    pub(super) index: usize,
    /// Bytes that the request may still have looked at ([`WORK`]).
    pub(super) work: u64,
    /// The request has used up what it may: no operation of it goes on.
    pub(super) exhausted: bool,
    /// What to do once the request has succeeded as a whole.
    pub(super) effects: Vec<Effect>,
    /// Was anything changed?
    pub(super) changed: bool,
    /// Was anything changed that users see?
    pub(super) user_changed: bool,
}

/// What an operation gives: a number that is not negative, and bytes.
pub(super) type Output = Outcome<(i32, List)>;

pub(super) fn nothing() -> Output {
    Ok((0, List::new()))
}

fn bytes(w: Writer) -> Output {
    Ok((0, w.into_vec().into()))
}

/// Bytes that one request may have looked at: some tenths of a second, in which no other client is served. An object has half of
/// them at most.
pub(super) const WORK: u64 = 256 << 20;

/// Work for a checksum, besides its bytes.
const CHECKSUM_WORK: u64 = 64;

impl Execution<'_> {
    /// Takes work from what the request may do.
    fn spend(&mut self, bytes: u64) -> Outcome<()> {
        match self.work.checked_sub(bytes) {
            Some(left) => self.work = left,
            None => self.exhausted = true,
        }
        if self.exhausted { Err(Errno::OVERFLOW) } else { Ok(()) }
    }

    /// Carries out one operation.
    pub(super) fn run(&mut self, op: Op) -> Output {
        self.index += 1;
        match op {
            Op::Read { offset, length } => {
                // A length of 0 means the whole object.
                let length = if length == 0 { self.state.size } else { length };
                Ok((0, self.state.read(offset, length, self.zeros)))
            }
            Op::Write { offset, data } => self.write(offset, data),
            Op::WriteFull { data } => self.write_full(data),
            Op::Append { data } => self.write(self.state.size, data),
            Op::WriteSame { offset, length, data } => self.write_same(offset, length, &data),
            Op::Zero { offset, length } => self.zero(offset, length),
            Op::Truncate { size } => self.truncate(size),
            Op::Create { exclusive } => self.create(exclusive),
            Op::Delete => self.delete(),
            Op::CopyFrom(_) => self.copy_from(),
            Op::Rollback { snap } => self.rollback(snap),
            Op::SetAllocHint { .. } => {
                self.touch();
                nothing()
            }
            Op::Call { class, method, input } => self.call(&class, &method, &input),
            Op::Watch { .. } | Op::Notify { .. } | Op::NotifyAck { .. } | Op::ListWatchers => {
                self.run_watch_op(op)
            }
            Op::GetXattr { .. }
            | Op::GetXattrs
            | Op::CmpXattr { .. }
            | Op::SetXattr { .. }
            | Op::RmXattr { .. } => self.run_xattr_op(op),
            Op::SparseRead { .. }
            | Op::MapExt { .. }
            | Op::CmpExt { .. }
            | Op::Stat
            | Op::AssertVer { .. }
            | Op::ListSnaps => self.run_other_read(op),
            Op::Checksum { .. } => self.checksum(&op),
            Op::TmapGet | Op::TmapPut { .. } | Op::TmapUpdate { .. } => self.run_tmap_op(op),
            // There are no cache tiers in which something could be kept.
            Op::PgNls { .. } | Op::PgNlsFilter { .. } | Op::CachePin { .. } => Err(Errno::INVAL),
            Op::Unknown { .. } => Err(Errno::OPNOTSUPP),
            Op::Malformed { .. } => Err(Errno::INVAL),
            _ => self.run_omap_op(op),
        }
    }

    /// Something changes; the object comes to be, if it is not there.
    fn touch(&mut self) {
        self.state.create();
        self.modify();
    }

    pub(super) fn modify(&mut self) {
        self.changed = true;
        self.user_changed = true;
    }

    fn must_exist(&self) -> Outcome<()> {
        if self.state.exists { Ok(()) } else { Err(Errno::NOENT) }
    }

    /// Is a payload of this size to go nowhere?
    fn drops(&self, len: usize) -> bool {
        self.null_writes && len >= NULL_WRITE_MIN
    }

    fn write(&mut self, offset: u64, data: List) -> Output {
        let len = data.len() as u64;
        check_extent(offset, len)?;
        self.touch();
        if self.drops(data.len()) || data.is_empty() {
            self.state.grow_to(offset + len);
        } else {
            self.state.write(offset, data);
        }
        nothing()
    }

    fn write_full(&mut self, data: List) -> Output {
        let len = data.len() as u64;
        check_extent(0, len)?;
        self.touch();
        self.state.truncate(len.min(self.state.size));
        if self.drops(data.len()) {
            self.state.grow_to(len);
        } else {
            self.state.write(0, data);
        }
        nothing()
    }

    fn write_same(&mut self, offset: u64, length: u64, data: &List) -> Output {
        /// What is written at a time.
        const STEP: usize = 1 << 20;
        if length == 0 {
            return nothing();
        }
        if data.is_empty() || !length.is_multiple_of(data.len() as u64) {
            return Err(Errno::INVAL);
        }
        check_extent(offset, length)?;
        let pattern = data.to_vec();
        let step = pattern.repeat((STEP / pattern.len()).max(1));
        let mut at = 0;
        while at < length {
            let take = (length - at).min(step.len() as u64);
            self.write(offset + at, Segment::copy_from(&step[..take as usize]).into())?;
            at += take;
        }
        nothing()
    }

    fn zero(&mut self, offset: u64, length: u64) -> Output {
        let size = self.state.size;
        // Zeros up to the end or behind it are a truncation, and behind the end nothing: the object never grows.
        if self.state.exists && length > 0 && length <= MAX_OBJECT_SIZE && offset < MAX_OBJECT_SIZE {
            if offset >= size {
                return nothing();
            }
            if offset + length >= size {
                return self.truncate(offset);
            }
        }
        check_extent(offset, length)?;
        if self.state.exists {
            self.modify();
            self.state.zero(offset, length);
        }
        nothing()
    }

    fn truncate(&mut self, size: u64) -> Output {
        if !self.state.exists {
            return nothing();
        }
        check_extent(size, 0)?;
        self.modify();
        self.state.truncate(size);
        nothing()
    }

    fn create(&mut self, exclusive: bool) -> Output {
        if exclusive && self.state.exists {
            return Err(Errno::EXIST);
        }
        self.touch();
        nothing()
    }

    pub(super) fn delete(&mut self) -> Output {
        self.must_exist()?;
        self.modify();
        self.state.delete();
        self.effects.push(Effect::Gone);
        nothing()
    }

    fn call(&mut self, class: &str, method: &str, input: &List) -> Output {
        // Methods that read data, as those on object maps, read all of it.
        self.spend(self.state.size)?;
        let method = class::find(class, method).ok_or(Errno::OPNOTSUPP)?;
        let mut context = Context {
            state: self.state.reborrow(),
            now: Utime::from(self.now),
            origin: self.origin,
            zeros: self.zeros,
            changed: false,
            removed: false,
            number: 0,
            index: self.index,
            error_output: Vec::new(),
        };
        let output = (method.run)(&mut context, &input.to_segment());
        let Context { changed, removed, number, error_output, .. } = context;
        self.error_output = error_output.into();
        // Also what a method has changed that failed is to be undone.
        if changed {
            self.modify();
        }
        let output = output?;
        if removed {
            self.effects.push(Effect::Gone);
        }
        Ok((number, output.into()))
    }

    fn run_other_read(&mut self, op: Op) -> Output {
        let mut w = Writer::new();
        match op {
            Op::SparseRead { offset, length } => return self.sparse_read(offset, length),
            // A list of pairs and a map have one encoding.
            Op::MapExt { offset, length } => self.state.runs(offset, length).encode(&mut w),
            Op::CmpExt { offset, data } => {
                let there = self.state.read(offset, data.len() as u64, self.zeros);
                compare::extents(&there, &data)?;
            }
            Op::Stat => {
                self.must_exist()?;
                Stat { size: self.state.size, mtime: self.state.mtime }.encode(&mut w);
            }
            Op::AssertVer { version: 0 } => return Err(Errno::INVAL),
            Op::AssertVer { version } if version < self.state.version => return Err(Errno::RANGE),
            Op::AssertVer { version } if version > self.state.version => return Err(Errno::OVERFLOW),
            Op::ListSnaps => self.list_snaps().encode(&mut w),
            _ => {}
        }
        bytes(w)
    }

    /// How many checksums there are, and the numbers. Bytes behind the object's end have none.
    fn checksum(&mut self, op: &Op) -> Output {
        let Op::Checksum { kind, offset, length, chunk, init } = op else { return Err(Errno::INVAL) };
        let kind = ChecksumKind::from_wire(*kind).ok_or(Errno::INVAL)?;
        let chunk = u64::from(*chunk);
        if chunk > 0 && (*length == 0 || length % chunk != 0) {
            return Err(Errno::INVAL);
        }
        self.must_exist()?;
        let init = init.to_segment();
        let mut r = Reader::new(&init);
        let seed = if kind.is_wide() { r.u64("seed") } else { r.u32("seed").map(u64::from) };
        let seed = seed.map_err(|_| Errno::INVAL)?;
        let length = if *length == 0 { self.state.size } else { *length };
        let present = length.min(self.state.size.saturating_sub(*offset));
        self.spend(present.saturating_add(CHECKSUM_WORK * present.checked_div(chunk).unwrap_or(1)))?;
        let content = self.state.read(*offset, length, self.zeros).to_segment();
        let chunk = if chunk == 0 { content.len().max(1) } else { chunk as usize };
        let mut w = Writer::new();
        w.count(content.len().div_ceil(chunk));
        content.chunks(chunk).for_each(|chunk| checksum::write(&mut w, kind, seed, chunk));
        bytes(w)
    }

    /// A map of what is there, then its bytes behind their length.
    fn sparse_read(&mut self, offset: u64, length: u64) -> Output {
        self.spend(length.min(self.state.size))?;
        let runs = self.state.runs(offset, length);
        let mut w = Writer::new();
        runs.encode(&mut w);
        w.count(runs.iter().map(|(_, len)| *len as usize).sum());
        let mut output = List::from(w.into_vec());
        for (offset, len) in runs {
            output.append(self.state.read(offset, len, self.zeros));
        }
        Ok((0, output))
    }

    fn run_tmap_op(&mut self, op: Op) -> Output {
        self.spend(self.state.size)?;
        let data = self.state.read(0, self.state.size, self.zeros);
        let map = match op {
            Op::TmapGet => return Ok((0, data)),
            Op::TmapPut { input } => tmap::sorted(&input.to_segment())?,
            Op::TmapUpdate { input } if input.is_empty() => return nothing(),
            Op::TmapUpdate { input } => tmap::updated(&data.to_segment(), &input.to_segment())?,
            _ => return Err(Errno::OPNOTSUPP),
        };
        check_extent(0, map.len() as u64)?;
        self.touch();
        // Not dropped with large payloads: the next update has to read it.
        self.state.truncate(0);
        self.state.write(0, map.into());
        nothing()
    }

    fn run_xattr_op(&mut self, op: Op) -> Output {
        let mut w = Writer::new();
        match op {
            Op::GetXattr { name } => {
                self.must_exist()?;
                let value = self.state.meta().xattrs().get(&name).ok_or(Errno::NODATA)?;
                w.put(value);
            }
            Op::GetXattrs => {
                self.must_exist()?;
                self.state.meta().xattrs().encode(&mut w);
            }
            Op::CmpXattr { name, compare, with } => {
                self.must_exist()?;
                // What is not there is compared as if it were empty.
                let value = self.state.meta().xattrs().get(&name).map_or(&[][..], Vec::as_slice);
                compare::xattr(&with, compare, value)?;
                return Ok((1, List::new()));
            }
            Op::SetXattr { name, value } => {
                if name.len() > MAX_XATTR_NAME {
                    return Err(Errno::NAMETOOLONG);
                }
                self.touch();
                self.state.set_xattr(name, value.to_vec());
            }
            Op::RmXattr { name } => {
                self.must_exist()?;
                self.modify();
                self.state.remove_xattr(&name);
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        bytes(w)
    }

    fn run_omap_op(&mut self, op: Op) -> Output {
        let mut w = Writer::new();
        match op {
            Op::OmapGetKeys { after, max } => self.omap_list(&mut w, &after, max, &[], false),
            Op::OmapGetVals { after, max, prefix } => self.omap_list(&mut w, &after, max, &prefix, true),
            Op::OmapGetHeader => w.put(self.state.meta().header()),
            Op::OmapGetValsByKeys { keys } => self.omap_get(&mut w, &keys),
            Op::OmapCmp { assertions } => {
                self.must_exist()?;
                let omap = self.state.meta().omap();
                for (key, (with, how)) in &assertions {
                    let value = omap.get(key).map_or(&[][..], Vec::as_slice);
                    compare::omap(value, *how, &with.to_segment())?;
                }
            }
            Op::OmapSetVals { entries } => {
                self.touch();
                for (key, value) in entries {
                    self.state.omap_set(key, value.to_vec());
                }
            }
            Op::OmapSetHeader { header } => {
                self.touch();
                self.state.omap_set_header(header.to_vec());
            }
            Op::OmapClear => {
                self.must_exist()?;
                self.modify();
                self.state.omap_clear();
            }
            Op::OmapRmKeys { keys } => {
                self.must_exist()?;
                self.modify();
                keys.iter().for_each(|key| self.state.omap_remove(key));
            }
            Op::OmapRmKeyRange { from, to } => {
                self.must_exist()?;
                self.modify();
                self.state.omap_remove_range(&from, &to);
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        bytes(w)
    }

    /// Entries behind `after` whose key starts with `prefix`, with their values or without, and whether there are more.
    fn omap_list(&self, w: &mut Writer, after: &[u8], max: u64, prefix: &[u8], values: bool) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start = if prefix > after { Included(prefix) } else { Excluded(after) };
        let omap = self.state.meta().omap();
        let mut entries =
            omap.range::<[u8], _>((start, Unbounded)).take_while(|(key, _)| key.starts_with(prefix));
        let (mut count, mut listed) = (0, Writer::new());
        let mut more = false;
        for (key, value) in &mut entries {
            if count == max.min(MAX_OMAP_ENTRIES) || listed.len() >= MAX_OMAP_BYTES {
                more = true;
                break;
            }
            count += 1;
            listed.blob(key);
            if values {
                listed.blob(value);
            }
        }
        w.count(count as usize);
        w.put(listed.as_slice());
        w.bool(more);
    }

    fn omap_get(&self, w: &mut Writer, keys: &BTreeSet<Vec<u8>>) {
        let omap = self.state.meta().omap();
        let found: Vec<_> = keys.iter().filter_map(|key| Some((key, omap.get(key)?))).collect();
        w.count(found.len());
        for (key, value) in found {
            w.blob(key);
            w.blob(value);
        }
    }

    fn run_watch_op(&mut self, op: Op) -> Output {
        let key = |cookie| WatchKey { object: self.id, cookie, watcher: self.origin.name };
        let mut w = Writer::new();
        match op {
            Op::Watch { cookie, op, timeout, .. } => return self.watch(key(cookie), op, timeout),
            Op::ListWatchers => self.watches.list(self.id).encode(&mut w),
            Op::Notify { cookie, timeout, payload } => {
                // One at a time: there is room for those that are under way, not for those of this request.
                if self.effects.iter().any(|effect| matches!(effect, Effect::Notify(_))) {
                    return Err(Errno::INVAL);
                }
                let user = self.origin.user;
                let id = self.watches.next_notify_id(self.epoch, self.id, payload.len(), user)?;
                let payload = payload.to_vec();
                self.effects.push(Effect::Notify(NotifyCall { id, cookie, timeout, payload }));
                w.u64(id);
            }
            Op::NotifyAck { notify_id, cookie, reply } => {
                let (key, reply) = (key(cookie), reply.to_vec());
                self.effects.push(Effect::Acknowledge { id: notify_id, key, reply });
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        bytes(w)
    }

    fn watch(&mut self, key: WatchKey, op: WatchOp, timeout: u32) -> Output {
        self.must_exist()?;
        match op {
            WatchOp::Watch | WatchOp::LegacyWatch => {
                self.watches.check_room(&key, self.origin.user)?;
                self.changed = true;
                self.effects.push(Effect::Watch { key, timeout, pings: op == WatchOp::Watch });
            }
            WatchOp::Reconnect => {
                if !self.watches.is_watching(&key) {
                    return Err(Errno::NOTCONN);
                }
                self.effects.push(Effect::Watch { key, timeout, pings: true });
            }
            WatchOp::Ping => self.watches.ping(self.now, &key)?,
            WatchOp::Unwatch => {
                self.changed |= self.watches.is_watching(&key);
                self.effects.push(Effect::Unwatch(key));
            }
        }
        nothing()
    }
}
