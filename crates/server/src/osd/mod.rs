//! An OSD that keeps its objects in memory, without I/O: requests in, replies out, time as an argument.
//!
//! It is the only one of its cluster: primary of every placement group, with nothing to replicate and nothing to
//! recover, so every request is carried out at once, in the order in which it comes.
//!
//! What a request passes through: [`Osd::request`] checks that it may be done here (`admit`), recognises one that was
//! done before (`duplicates`), finds the object (`store`), carries out the operations (`execute`, `class`) on its data
//! (`extents`) and metadata (`object`), and undoes them if one fails. Watches and notifications live beside the objects
//! (`watch`).
//!
//! Snapshots of objects are not kept: a write that would need to keep one is refused, not done without it.

mod admit;
mod class;
mod compare;
mod duplicates;
mod errno;
mod execute;
mod extents;
mod listing;
mod object;
mod store;
mod watch;

pub(crate) use extents::COPY_MAX;
pub use store::PoolUsage;

use admit::{Access, Verdict};
use duplicates::{Done, Duplicates};
use errno::Errno;
use execute::{Effect, Execution};
use onego_ceph::addr::EntityAddr;
use onego_ceph::messages::{OpResult, OsdOp, OsdOpReply, WatchNotify};
use onego_ceph::ops::{Op, flag, op_flag};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{EVersion, EntityName, ReqId, Utime};
use onego_wire::Time;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use store::{Identity, ObjectId, Store};
use watch::{Origin, Watches};

/// Names a client's connection; whoever drives the OSD gives the numbers, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// How an OSD is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// Memory that objects may take, bytes. A write that needs more fails with ENOSPC and changes nothing.
    pub memory_limit: u64,
    /// Acknowledge writes of 4 KiB and more without keeping what they bring: reads give zeros.
    pub null_writes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory_limit: u64::MAX, null_writes: false }
    }
}

/// What an OSD holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Memory that objects take, dead parts of blocks and bookkeeping included.
    pub used: u64,
    /// Memory that objects may take.
    pub limit: u64,
    /// Number of objects in all pools.
    pub objects: u64,
    /// Sum of the objects' sizes in all pools.
    pub bytes: u64,
}

/// What the operations of a request gave.
type Results = SmallVec<[OpResult; 2]>;

/// The operations of a request, with their flags.
type Ops = SmallVec<[(Op, u32); 2]>;

/// An OSD.
pub struct Osd {
    config: Config,
    store: Store,
    watches: Watches,
    duplicates: Duplicates,
    sessions: FxHashMap<SessionId, Origin>,
}

/// How a request ended.
struct Ending {
    /// Was any operation carried out?
    tried: bool,
    result: i32,
    results: Results,
    version: EVersion,
    user_version: u64,
}

impl Osd {
    /// An OSD without objects.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            store: Store::new(),
            watches: Watches::default(),
            duplicates: Duplicates::default(),
            sessions: FxHashMap::default(),
        }
    }

    /// A client has connected. `name` has the global id that it was given, `addr` is the address that it says it has.
    pub fn session_opened(&mut self, session: SessionId, name: EntityName, addr: EntityAddr) {
        self.sessions.insert(session, Origin { session, name, addr });
    }

    /// A client's connection is gone. Its watches stay until their time is up.
    pub fn session_closed(&mut self, now: Time, session: SessionId) {
        self.sessions.remove(&session);
        self.watches.session_closed(now, session);
    }

    /// The next notification, and the session that it goes to. One that is for a session that is gone is dropped.
    pub fn poll_event(&mut self) -> Option<(SessionId, WatchNotify)> {
        loop {
            let (session, event) = self.watches.poll_event()?;
            if self.sessions.contains_key(&session) {
                return Some((session, event));
            }
        }
    }

    /// When [`timeout`](Self::timeout) wants to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        self.watches.deadline()
    }

    /// The deadline has passed.
    pub fn timeout(&mut self, now: Time) {
        self.watches.timeout(now);
    }

    /// There is a new map: objects of pools that are gone go, and so do watches of clients that are shut out.
    pub fn map_changed(&mut self, map: &OsdMap) {
        let gone = self.store.pools().map(|(pool, _)| pool).filter(|pool| !map.pools.contains_key(pool));
        for pool in gone.collect::<Vec<_>>() {
            for object in self.store.remove_pool(pool) {
                self.watches.object_gone(object);
            }
        }
        if !map.blocklist.is_empty() {
            self.watches.shut_out(|addr| admit::is_blocklisted(map, addr));
        }
    }

    /// What is in a pool.
    pub fn pool_usage(&self, pool: i64) -> PoolUsage {
        self.store.pool(pool).map_or_else(PoolUsage::default, |pool| pool.usage)
    }

    /// What is in all pools.
    pub fn usage(&self) -> Usage {
        let empty = Usage { used: self.store.used(), limit: self.config.memory_limit, ..Usage::default() };
        self.store.pools().fold(empty, |sum, (_, pool)| Usage {
            objects: sum.objects + pool.usage.objects,
            bytes: sum.bytes + pool.usage.bytes,
            ..sum
        })
    }

    /// Carries out a request and returns the reply. None: the request is dropped, because the client is going to send
    /// it again when it has a newer map.
    ///
    /// `tid` is the transaction id of the message, `map` the newest map.
    pub fn request(
        &mut self,
        now: Time,
        session: SessionId,
        tid: u64,
        mut request: OsdOp,
        map: &OsdMap,
    ) -> Option<OsdOpReply> {
        let origin = *self.sessions.get(&session)?;
        let ops = std::mem::take(&mut request.ops);
        let ending = match admit::admit(&request, &ops, &origin, map) {
            Verdict::Drop => return None,
            Verdict::Refuse(error) => Ending::failed(error, &ops),
            Verdict::Admit(Access::Listing) => self.list(&request, ops, map),
            Verdict::Admit(Access::Read) => self.read(now, &origin, &request, ops, map.epoch),
            Verdict::Admit(Access::Write) => {
                let id = request_id(&request, &origin, tid);
                match self.duplicates.find(&id) {
                    Some(done) => Ending::repeated(done.clone(), &ops),
                    None => self.write(now, &origin, &request, ops, map, &id),
                }
            }
        };
        // What was not even tried is answered with the flags of the request (OSDService::reply_op_error).
        let acknowledged = if ending.tried { flag::ACK | flag::ON_DISK } else { 0 };
        Some(OsdOpReply {
            object: request.object,
            pg: request.pg.pg,
            flags: u64::from(request.flags & !flag::ON_NVRAM | acknowledged),
            result: ending.result,
            epoch: map.epoch,
            ops: ending.results,
            attempt: request.attempt,
            replay_version: ending.version,
            user_version: ending.user_version,
            redirect: None,
        })
    }

    fn execution<'a>(&'a mut self, now: Time, origin: &'a Origin, epoch: u32, id: ObjectId) -> Execution<'a> {
        let (state, zeros) = self.store.state_mut(id);
        Execution {
            now,
            origin,
            epoch,
            null_writes: self.config.null_writes,
            id,
            state,
            zeros,
            watches: &mut self.watches,
            effects: Vec::new(),
            changed: false,
            user_changed: false,
        }
    }

    fn read(&mut self, now: Time, origin: &Origin, request: &OsdOp, ops: Ops, epoch: u32) -> Ending {
        let Some(id) = self.store.find(&identity(request)) else {
            let floor = self.store.pool(request.pg.pg.pool).map_or(0, |pool| pool.version);
            return Ending { user_version: floor, ..Ending::failed(Errno::NOENT, &ops) };
        };
        let mut execution = self.execution(now, origin, epoch, id);
        let (result, results) = run_all(&mut execution, ops);
        let user_version = execution.state.version;
        let effects = std::mem::take(&mut execution.effects);
        if result >= 0 && !effects.is_empty() {
            self.apply(now, origin, id, user_version, effects);
        }
        let usage = &mut self.store.pool_mut(request.pg.pg.pool).usage;
        usage.reads += 1;
        usage.read_bytes += results.iter().map(|op| op.output.len() as u64).sum::<u64>();
        Ending { tried: true, result, results, version: EVersion::default(), user_version }
    }

    fn write(
        &mut self,
        now: Time,
        origin: &Origin,
        request: &OsdOp,
        ops: Ops,
        map: &OsdMap,
        reqid: &ReqId,
    ) -> Ending {
        let (identity, epoch) = (identity(request), map.epoch);
        let found = self.store.find(&identity);
        if found.is_none() && !admit::has_right_hash(request, map) {
            return Ending::failed(Errno::INVAL, &ops);
        }
        if let Err(error) = self.check_space(found, &ops) {
            return Ending::failed(error, &ops);
        }
        let id = found.unwrap_or_else(|| self.store.prepare(&identity));
        let brought: u64 = ops.iter().map(|(op, _)| admit::payload_len(op) as u64).sum();
        let before = self.store.object(id).state.footprint();
        let (existed, size) = (found.is_some(), self.store.object(id).state.size);
        let next = EVersion { version: self.store.pool_mut(identity.pool).version + 1, epoch };

        let undo = admit::may_fail_half_way(&ops).then(|| self.store.object(id).state.clone());
        let mut execution = self.execution(now, origin, epoch, id);
        let (mut result, mut results) = run_all(&mut execution, ops);
        let mut changed = execution.changed;
        let effects = std::mem::take(&mut execution.effects);
        if result < 0 && changed {
            if let Some(undo) = undo {
                *execution.state = undo;
            }
            changed = false;
        }
        if changed && result >= 0 {
            stamp(&mut execution, next.version, request.mtime);
        }
        let user_version = execution.state.version;
        if result >= 0 && !effects.is_empty() {
            self.apply(now, origin, id, user_version, effects);
        }
        self.store.changed(id, existed, size, before);
        let pool = self.store.pool_mut(identity.pool);
        pool.usage.writes += 1;
        if changed {
            pool.version = next.version;
            pool.usage.written_bytes += brought;
            result = settle_outputs(request.flags, result, &mut results);
        }
        let version = if changed || result < 0 {
            EVersion { version: pool.version, epoch }
        } else {
            EVersion::default()
        };
        let ops = (request.flags & flag::RETURN_VEC != 0).then(|| Box::new(results.clone()));
        self.duplicates.record(reqid, Done { result, version, user_version, ops });
        Ending { tried: true, result, results, version, user_version }
    }

    /// ENOSPC if the operations may need more memory than there is.
    fn check_space(&self, object: Option<ObjectId>, ops: &Ops) -> Result<(), Errno> {
        /// Part of the limit that is kept for what small changes need, so that a full cluster can still be cleaned up:
        /// to remove an image is to take locks and to write notes first.
        const RESERVE: u64 = 16;
        let (used, limit) = (self.store.used(), self.config.memory_limit);
        let asked: u64 = ops.iter().fold(0, |sum, (op, _)| sum.saturating_add(admit::most_growth(op)));
        if used.saturating_add(asked) <= limit - limit / RESERVE {
            return Ok(());
        }
        let state = object.map(|id| &self.store.object(id).state);
        let growth: u64 = ops.iter().map(|(op, _)| admit::growth(op, state, self.config.null_writes)).sum();
        let available = if admit::is_small_change(ops) { limit } else { limit - limit / RESERVE };
        if growth == 0 || used.saturating_add(growth) <= available { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// What a request that succeeded has to do with watches.
    fn apply(&mut self, now: Time, origin: &Origin, id: ObjectId, version: u64, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Watch { key, timeout, pings } => {
                    self.watches.connect(now, key, origin, timeout, pings);
                }
                Effect::Unwatch(key) => self.watches.remove(&key, false),
                Effect::Gone => self.watches.object_gone(id),
                Effect::Notify(call) => self.watches.notify(now, id, version, call, origin),
                Effect::Acknowledge { id, key, reply } => self.watches.acknowledge(&key, id, reply),
            }
        }
    }
}

/// All that tells the object of a request from others.
fn identity(request: &OsdOp) -> Identity<'_> {
    Identity {
        pool: request.pg.pg.pool,
        hash: request.hash,
        namespace: &request.locator.namespace,
        key: &request.locator.key,
        name: &request.object,
    }
}

/// Names the request, also if it is sent again (MOSDOp.h, get_reqid).
fn request_id(request: &OsdOp, origin: &Origin, tid: u64) -> ReqId {
    let given = &request.reqid;
    if given.name != EntityName::default() || given.tid != 0 {
        *given
    } else {
        ReqId { name: origin.name, tid, inc: request.client_incarnation as i32 }
    }
}

/// Carries out operations until one fails that must not.
fn run_all(execution: &mut Execution<'_>, ops: Ops) -> (i32, Results) {
    /// Most bytes in one reply: two of the largest objects. A message cannot have more than 4 GiB, and the operations
    /// of one small request may read the same bytes again and again.
    const MAX_OUTPUT: usize = 256 << 20;
    let mut results = Results::with_capacity(ops.len());
    let (mut result, mut left) = (0, MAX_OUTPUT);
    for (op, flags) in ops {
        let code = op.code();
        if result < 0 {
            results.push(OpResult { code, ..OpResult::default() });
            continue;
        }
        let outcome = execution.run(op).and_then(|(number, output)| {
            left = left.checked_sub(output.len()).ok_or(Errno::OVERFLOW)?;
            Ok((number, output))
        });
        match outcome {
            Ok((number, output)) => {
                result = number;
                results.push(OpResult { code, result, output });
            }
            Err(error) => {
                let number = error.result();
                result = if flags & op_flag::FAIL_OK != 0 { 0 } else { number };
                results.push(OpResult { code, result: number, ..OpResult::default() });
            }
        }
    }
    (result, results)
}

/// Gives a changed object its version and time.
fn stamp(execution: &mut Execution<'_>, version: u64, mtime: Utime) {
    let state = &mut *execution.state;
    if execution.user_changed {
        state.version = version;
    }
    if mtime != Utime::default() {
        state.mtime = mtime;
    }
}

/// What a write may give back: nothing, unless the client asks for it, and then not much (PrimaryLogPG.cc, execute_ctx).
fn settle_outputs(flags: u32, result: i32, results: &mut Results) -> i32 {
    /// `osd_max_write_op_reply_len`
    const MAX_OUTPUT: usize = 64;
    if flags & flag::RETURN_VEC == 0 {
        results.iter_mut().for_each(|op| op.output = onego_buf::List::new());
        return 0;
    }
    let mut result = result;
    for op in results.iter_mut().filter(|op| op.output.len() > MAX_OUTPUT) {
        op.output = onego_buf::List::new();
        op.result = Errno::OVERFLOW.result();
        result = op.result;
    }
    result
}

impl Ending {
    /// Nothing was done.
    fn failed(error: Errno, ops: &Ops) -> Self {
        let results = ops.iter().map(|(op, _)| OpResult { code: op.code(), ..OpResult::default() }).collect();
        Self { tried: false, result: error.result(), results, version: EVersion::default(), user_version: 0 }
    }

    /// It was done before.
    fn repeated(done: Done, ops: &Ops) -> Self {
        let Done { result, version, user_version, ops: results } = done;
        let results = results.map_or_else(|| Self::failed(Errno::IO, ops).results, |results| *results);
        Self { tried: true, result, results, version, user_version }
    }
}

#[cfg(test)]
mod tests;
