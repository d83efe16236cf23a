//! An OSD that keeps its objects in memory, without I/O: requests in, replies out, time as an argument.
//!
//! It takes itself for the primary of whatever it is asked: which OSD serves a placement group, and when, is decided
//! elsewhere. Every request is carried out at once, in the order in which it comes; what it changes can be had as a
//! transaction (`Osd::take_transaction`), which the other OSDs of the group follow (`replicas`).
//!
//! What a request passes through: [`Osd::request`] checks that it may be done here (`admit`), recognises one that was
//! done before (`duplicates`), finds the object (`store`), carries out the operations (`execute`, `class`) on its data
//! (`onego_service::extents`) and metadata (`object`), notes the changes (`transaction`), and undoes them if one fails. Watches and notifications live beside the objects
//! (`watch`).
//!
//! Snapshots of objects are not kept: a write that would need to keep one is refused, not done without it.

mod admit;
mod class;
mod codec;
mod compare;
mod duplicates;
mod errno;
mod execute;
mod group;
mod listing;
mod object;
mod recover;
mod replicas;
mod rights;
mod store;
mod transaction;
mod watch;

pub(crate) use admit::may_write;
pub(crate) use codec::{Body, Parts};
pub(crate) use group::Group;
pub(crate) use object::State;
pub(crate) use onego_service::extents::COPY_MAX;
pub(crate) use replicas::Replicas;
pub use rights::Rights;
pub use store::PoolUsage;
pub(crate) use store::{Identity, Name, bounds};
pub(crate) use transaction::Transaction;

use admit::{Access, Verdict};
use duplicates::Done;
use errno::Errno;
use execute::{Effect, Execution};
use onego_ceph::messages::{OpResult, OsdOp, OsdOpReply, WatchNotify};
use onego_ceph::ops::{Op, flag, op_flag};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{EVersion, EntityName, PgId, ReqId, Utime};
use onego_msgr::addr::EntityAddr;
use onego_wire::Time;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use store::{ObjectId, Store};
use transaction::{Editor, Mutation};
use watch::{Origin, Watches};

/// Names a client's connection; whoever drives the OSD gives the numbers, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// How an OSD is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// Memory that objects may take, bytes. A write of data that would fill more than 97 % of it fails with ENOSPC and
    /// changes nothing.
    pub memory_limit: u64,
    /// Acknowledge writes of 4 KiB and more without keeping what they bring: reads give zeros.
    pub null_writes: bool,
    /// Note what requests change, for others.
    pub transactions: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory_limit: u64::MAX, null_writes: false, transactions: false }
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
    groups: FxHashMap<PgId, Group>,
    /// The number of groups of each pool, by the newest map.
    pg_nums: FxHashMap<i64, u32>,
    sessions: FxHashMap<SessionId, Client>,
    /// What the last request has changed.
    transaction: Option<Box<Transaction>>,
    /// Memory that objects take on the fullest of those OSDs that have to apply the next request too.
    peers_used: u64,
    /// The record of the journal that what the next request changes will be in.
    record: u64,
    /// The record of the journal that has to be durable before what the last request gave may be told.
    rests_on: u64,
}

/// What somebody is told rests on everything that was done so far.
const EVERYTHING: u64 = u64::MAX;

/// A client that is connected.
struct Client {
    origin: Origin,
    rights: Rights,
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
            groups: FxHashMap::default(),
            pg_nums: FxHashMap::default(),
            sessions: FxHashMap::default(),
            transaction: None,
            peers_used: 0,
            record: 0,
            rests_on: 0,
        }
    }

    /// A client has connected. `name` has the global id that it was given, `addr` is the address that it says it has.
    pub fn session_opened(&mut self, session: SessionId, name: EntityName, addr: EntityAddr, rights: Rights) {
        let origin = Origin { session, name, addr };
        self.sessions.insert(session, Client { origin, rights });
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
        self.groups.retain(|pg, _| map.pools.contains_key(&pg.pool));
        self.split_and_merge(map);
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
        let client = self.sessions.get_mut(&session)?;
        let origin = client.origin;
        self.rests_on = EVERYTHING;
        let ops = std::mem::take(&mut request.ops);
        let ending = match admit::admit(&request, &ops, &origin, map) {
            Verdict::Drop => return None,
            Verdict::Admit(_) if !client.rights.allow(&request, &ops, map) => {
                Ending::failed(Errno::PERM, &ops)
            }
            Verdict::Refuse(error) => Ending::failed(error, &ops),
            Verdict::Admit(Access::Listing) => self.list(&request, ops, map),
            Verdict::Admit(Access::Read) => self.read(now, &origin, &request, ops, map.epoch),
            Verdict::Admit(Access::Write) => {
                let id = request_id(&request, &origin, tid);
                let group = self.groups.get(&request.pg.pg);
                match group.and_then(|group| group.outcomes.find(&id)) {
                    Some(done) => Ending::repeated(done.clone(), &ops),
                    None => self.write(now, &origin, &request, ops, map, &id)?,
                }
            }
        };
        Some(reply(request, ending, map))
    }

    /// Refuses a request that brought more than anybody may, and of which no more than its front is here.
    pub(crate) fn refuse_too_large(&mut self, mut request: OsdOp, map: &OsdMap) -> OsdOpReply {
        self.rests_on = EVERYTHING;
        let ops = std::mem::take(&mut request.ops);
        reply(request, Ending::failed(Errno::MSGSIZE, &ops), map)
    }

    /// What the last request has changed, if that is noted, and if it was a write that was not done before.
    pub(crate) fn take_transaction(&mut self) -> Option<Box<Transaction>> {
        self.transaction.take()
    }

    /// May a client give commands to the OSD itself?
    pub(crate) fn may_command(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|client| client.rights.allow_everything())
    }

    /// What requests change from now on will be in this record of the journal.
    pub(crate) fn set_record(&mut self, record: u64) {
        self.record = record;
    }

    /// The record of the journal that has to be durable before what the last request gave may be told; it may be one
    /// that is not written yet, which means all.
    pub(crate) fn rests_on(&self) -> u64 {
        self.rests_on
    }

    /// Objects may take so much memory from now on.
    pub(crate) fn set_memory_limit(&mut self, limit: u64) {
        self.config.memory_limit = limit;
    }

    /// Memory that objects may take.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.config.memory_limit
    }

    /// Memory that objects take.
    pub(crate) fn used(&self) -> u64 {
        self.store.used()
    }

    /// All that it holds is gone.
    pub(crate) fn wipe(&mut self) {
        // The map is not lost: it is the monitor's.
        let pg_nums = std::mem::take(&mut self.pg_nums);
        *self = Self { pg_nums, ..Self::new(self.config.clone()) };
    }

    /// Objects take so much memory on the fullest of those OSDs that have to apply the next request too.
    pub(crate) fn set_peers_used(&mut self, used: u64) {
        self.peers_used = used;
    }

    fn execution<'a>(
        &'a mut self,
        now: Time,
        origin: &'a Origin,
        epoch: u32,
        id: ObjectId,
        notes: Option<&'a mut Vec<Mutation>>,
    ) -> Execution<'a> {
        let (state, zeros) = self.store.state_mut(id);
        let state = Editor::new(state, notes);
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
            let floor = self.groups.get(&request.pg.pg).map_or(0, |group| group.version.version);
            return Ending { user_version: floor, ..Ending::failed(Errno::NOENT, &ops) };
        };
        let mut execution = self.execution(now, origin, epoch, id, None);
        let (result, results) = run_all(&mut execution, ops);
        let user_version = execution.state.version;
        let effects = std::mem::take(&mut execution.effects);
        if result >= 0 && !effects.is_empty() {
            self.apply_effects(now, origin, id, user_version, effects);
        }
        self.rests_on = self.store.object(id).record;
        let usage = &mut self.store.pool_mut(request.pg.pg.pool).usage;
        usage.reads += 1;
        usage.read_bytes += results.iter().map(|op| op.output.len() as u64).sum::<u64>();
        Ending { tried: true, result, results, version: EVersion::default(), user_version }
    }

    /// Carries out a request that may change its object. None: there is no room in the pool for what it brings, and it
    /// waits at its client until there is.
    fn write(
        &mut self,
        now: Time,
        origin: &Origin,
        request: &OsdOp,
        ops: Ops,
        map: &OsdMap,
        reqid: &ReqId,
    ) -> Option<Ending> {
        let (identity, epoch, pg) = (identity(request), map.epoch, request.pg.pg);
        let found = self.store.find(&identity);
        if found.is_none() && !admit::has_right_hash(request, map) {
            return Some(Ending::failed(Errno::INVAL, &ops));
        }
        if let Err(error) = self.check_space(found, &ops) {
            return Some(self.refuse(request, reqid, Ending::failed(error, &ops)));
        }
        let id = found.unwrap_or_else(|| self.store.prepare(&identity));
        let brought: u64 = ops.iter().map(|(op, _)| admit::payload_len(op) as u64).sum();
        let before = Before::of(&self.store.object(id).state, found.is_some());
        let version = self.groups.entry(pg).or_default().version;
        let next = EVersion { version: version.version + 1, epoch };
        let noted = self.config.transactions;
        let mut mutations = Vec::new();

        let full = admit::full_pool(request, map);
        let may_be_undone = full.is_some() || admit::may_fail_half_way(&ops);
        let undo = may_be_undone.then(|| self.store.object(id).state.clone());
        let notes = noted.then_some(&mut mutations);
        let mut execution = self.execution(now, origin, epoch, id, notes);
        let (mut result, mut results) = run_all(&mut execution, ops);
        let mut changed = execution.changed;
        let effects = std::mem::take(&mut execution.effects);
        let no_room = full.filter(|_| result >= 0 && before.is_grown_to(&execution.state));
        if (result < 0 && changed) || no_room.is_some() {
            if let Some(undo) = undo {
                execution.state.undo(undo);
            }
            changed = false;
        }
        if let Some(error) = no_room {
            self.settle(pg, id);
            let tries = request.flags & flag::FULL_TRY != 0;
            return tries.then(|| self.refuse(request, reqid, Ending::undone(error, &results)));
        }
        if changed && result >= 0 {
            stamp(&mut execution, next.version, request.mtime);
        }
        let user_version = execution.state.version;
        if result >= 0 && !effects.is_empty() {
            self.apply_effects(now, origin, id, user_version, effects);
        }
        self.store.set_record(id, self.record);
        self.settle(pg, id);
        let pool = self.store.pool_mut(identity.pool);
        pool.usage.writes += 1;
        if changed {
            pool.usage.written_bytes += brought;
            result = settle_outputs(request.flags, result, &mut results);
        }
        let group = self.groups.entry(pg).or_default();
        if changed {
            group.advance(next, request.hash.reverse_bits(), noted);
        }
        let version = if changed || result < 0 {
            EVersion { version: group.version.version, epoch }
        } else {
            EVersion::default()
        };
        let (remembered_result, ops) = to_remember(result, &results);
        let done = Done { result: remembered_result, version, user_version, ops };
        if noted {
            self.transaction = Some(Box::new(Transaction {
                pg,
                object: Name::of(&identity),
                version: changed.then_some(next),
                mutations,
                reqid: *reqid,
                done: done.clone(),
            }));
        }
        group.outcomes.record(reqid, done);
        Some(Ending { tried: true, result, results, version, user_version })
    }

    /// Remembers that there was no room for a write. When it is sent again there may be, but what its client has written
    /// since was done.
    fn refuse(&mut self, request: &OsdOp, reqid: &ReqId, ending: Ending) -> Ending {
        let pg = request.pg.pg;
        let done = Done { result: ending.result, version: ending.version, user_version: 0, ops: None };
        if self.config.transactions {
            self.transaction = Some(Box::new(Transaction {
                pg,
                object: Name::of(&identity(request)),
                version: None,
                mutations: Vec::new(),
                reqid: *reqid,
                done: done.clone(),
            }));
        }
        self.groups.entry(pg).or_default().outcomes.record(reqid, done);
        ending
    }

    /// ENOSPC if the operations may need more memory than there is.
    fn check_space(&self, object: Option<ObjectId>, ops: &Ops) -> Result<(), Errno> {
        /// The share of the limit that data may fill, as a numerator and a denominator (`osd_failsafe_full_ratio`). The
        /// rest is kept for what small changes need, so that a full cluster can still be cleaned up: to remove an image
        /// is to take locks and to write notes first.
        const FOR_DATA: (u64, u64) = (97, 100);
        let (used, limit) = (self.store.used().max(self.peers_used), self.config.memory_limit);
        let asked: u64 = ops.iter().fold(0, |sum, (op, _)| sum.saturating_add(admit::most_growth(op)));
        let for_data = (u128::from(limit) * u128::from(FOR_DATA.0) / u128::from(FOR_DATA.1)) as u64;
        if used.saturating_add(asked) <= for_data {
            return Ok(());
        }
        let state = object.map(|id| &self.store.object(id).state);
        let growth: u64 = ops.iter().map(|(op, _)| admit::growth(op, state, self.config.null_writes)).sum();
        let available = if admit::is_small_change(ops) { limit } else { for_data };
        if growth == 0 || used.saturating_add(growth) <= available { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// What a request that succeeded has to do with watches.
    fn apply_effects(
        &mut self,
        now: Time,
        origin: &Origin,
        id: ObjectId,
        version: u64,
        effects: Vec<Effect>,
    ) {
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

/// What an object was before it was changed.
#[derive(Clone, Copy)]
struct Before {
    existed: bool,
    size: u64,
}

impl Before {
    fn of(state: &object::State, existed: bool) -> Self {
        Self { existed, size: state.size }
    }

    /// Has an object come to be, or become longer?
    fn is_grown_to(&self, state: &object::State) -> bool {
        (state.exists && !self.existed) || state.size > self.size
    }
}

/// All that tells the object of a request from others.
pub(crate) fn identity(request: &OsdOp) -> Identity<'_> {
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
    /// Most bytes in one reply. The operations of one small request may read the same bytes again and again.
    const MAX_OUTPUT: usize = onego_ceph::ops::MAX_PAYLOAD as usize;
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
    if execution.user_changed {
        execution.state.stamp(version);
    }
    if mtime != Utime::default() {
        execution.state.touch(mtime);
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

/// What is remembered of the results of a write, in case it is sent again: nothing, if no operation has any. Outputs are
/// copied, because they may be small parts of large objects. One that is not remembered is an error in place of a reply
/// without it: a write that has changed nothing may return whatever it has read.
fn to_remember(result: i32, results: &Results) -> (i32, Option<Box<Results>>) {
    /// Bytes of outputs that are remembered of one write: methods of classes return a few names and numbers.
    const MAX_OUTPUTS: usize = 4096;
    if results.iter().all(|op| op.result == 0 && op.output.is_empty()) {
        return (result, None);
    }
    let (mut result, mut left) = (result, MAX_OUTPUTS);
    let remember = |op: &OpResult| match left.checked_sub(op.output.len()) {
        Some(rest) => {
            left = rest;
            OpResult { output: op.output.to_vec().into(), ..*op }
        }
        None => {
            result = Errno::OVERFLOW.result();
            OpResult { code: op.code, result, output: onego_buf::List::new() }
        }
    };
    let remembered = results.iter().map(remember).collect();
    (result, Some(Box::new(remembered)))
}

impl Ending {
    /// Nothing was done.
    fn failed(error: Errno, ops: &Ops) -> Self {
        Self::refused(error, ops.iter().map(|(op, _)| op.code()))
    }

    /// What was done was undone.
    fn undone(error: Errno, results: &Results) -> Self {
        Self::refused(error, results.iter().map(|op| op.code))
    }

    /// Operations with these numbers left nothing behind, and give nothing.
    fn refused(error: Errno, codes: impl Iterator<Item = u16>) -> Self {
        let results = codes.map(|code| OpResult { code, ..OpResult::default() }).collect();
        Self { tried: false, result: error.result(), results, version: EVersion::default(), user_version: 0 }
    }

    /// It was done before.
    fn repeated(done: Done, ops: &Ops) -> Self {
        let Done { result, version, user_version, ops: results } = done;
        let results = results.map_or_else(|| Self::failed(Errno::IO, ops).results, |results| *results);
        Self { tried: true, result, results, version, user_version }
    }
}

/// The reply to a request that has come to this end.
fn reply(request: OsdOp, ending: Ending, map: &OsdMap) -> OsdOpReply {
    // What was not even tried is answered with the flags of the request (OSDService::reply_op_error).
    let acknowledged = if ending.tried { flag::ACK | flag::ON_DISK } else { 0 };
    OsdOpReply {
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
    }
}

#[cfg(test)]
pub(crate) mod tests;
