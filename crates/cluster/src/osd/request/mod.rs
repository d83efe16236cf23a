//! A request is carried out: one call, from the message to the reply, and to what the other OSDs and the journal need.

mod ending;
mod listing;

pub use ending::Answer;
pub(super) use listing::MAX_LISTED;

use super::admit::{self, Access, Verdict};
use super::copy::CopySources;
use super::daemon::Osd;
use super::duplicates::Done;
use super::errno::Errno;
use super::execute::{Effect, Execution, WORK};
use super::reply_size::MAX_REPLY;
use super::session::{Origin, SessionId};
use super::store::clones::Shown;
use super::store::object::State;
use super::store::{Identity, Name, ObjectId, identity};
use super::transaction::{Editor, Mutation, Transaction};
use ending::{Ending, Ops, Results, answer, settle_outputs, to_remember};
use onego_buf::List;
use onego_ceph::messages::{OpResult, OsdOp};
use onego_ceph::ops::{flag, op_flag};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{EVersion, EntityName, NOSNAP, ReqId, SNAPDIR, SnapContext, Utime};
use onego_wire::Time;

/// Bytes that one request may copy: what it changes has to fit a record of the journal. An object with more cannot be copied.
const MAX_COPIED: u64 = 1 << 30;

/// What an OSD has to know to carry out a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext<'a> {
    /// The time.
    pub now: Time,
    /// The client's connection.
    pub session: SessionId,
    /// The transaction id of the message.
    pub tid: u64,
    /// The newest map.
    pub map: &'a OsdMap,
    /// Bytes of memory that objects take on the fullest of those OSDs that have to apply the request too.
    pub peers_used: u64,
    /// The record of the journal that what the request changes will be in.
    pub record: u64,
    /// The sources of the request's `copy_from` operations.
    pub copies: &'a CopySources,
    /// Bytes that the outputs may have: see [`Osd::reply_bound`].
    pub room: usize,
}

impl Osd {
    /// Carries out a request. `None`: the request is dropped, because the client is going to send
    /// it again when it has a newer map. Of the request its operations and the object's name are gone then: to move all of it
    /// would cost every request a copy of half a kilobyte.
    pub fn request(&mut self, cx: &RequestContext<'_>, request: &mut OsdOp) -> Option<Answer> {
        let client = self.sessions.get_mut(&cx.session)?;
        let (origin, map) = (client.origin, cx.map);
        let ending = match admit::admit(request, &origin, map) {
            Verdict::Drop => return None,
            Verdict::Admit(_) if !client.rights.allow(request, &request.ops, map) => {
                Ending::failed(Errno::PERM, &request.ops)
            }
            Verdict::Refuse(error) => Ending::failed(error, &request.ops),
            Verdict::Admit(Access::Listing) => self.list(request, map, cx.room),
            Verdict::Admit(Access::Read) => self.read(cx, &origin, request),
            Verdict::Admit(Access::Write) => {
                let id = request_id(request, &origin, cx.tid);
                let group = self.groups.get(&request.pg.pg);
                match group.and_then(|group| group.outcomes.find(&id)) {
                    Some(done) => Ending::repeated(done.clone(), &request.ops),
                    None => {
                        let version = group.map_or(EVersion::default(), |group| group.version);
                        self.write(cx, &origin, request, &id, version)?
                    }
                }
            }
        };
        Some(answer(request, ending, map))
    }

    /// Refuses a request that brought more than anybody may, and of which no more than its front is here.
    pub(crate) fn refuse_too_large(cx: &RequestContext<'_>, request: &mut OsdOp) -> Answer {
        let ending = Ending::failed(Errno::MSGSIZE, &request.ops);
        answer(request, ending, cx.map)
    }

    /// Carries out operations on an object, or on `state`, which is what it was at a snapshot.
    fn execution<'a>(
        &'a mut self,
        cx: &RequestContext<'a>,
        origin: &'a Origin,
        id: ObjectId,
        state: Option<&'a mut State>,
        notes: Option<&'a mut Vec<Mutation>>,
    ) -> Execution<'a> {
        let (head, zeros) = self.store.state_mut(id);
        let state = Editor::new(state.unwrap_or(head), notes);
        Execution {
            now: cx.now,
            origin,
            epoch: cx.map.epoch,
            null_writes: self.config.null_writes,
            id,
            state,
            zeros,
            watches: &mut self.watches,
            copies: cx.copies.iter(),
            index: 0,
            error_output: List::new(),
            work: WORK,
            exhausted: false,
            effects: Vec::new(),
            changed: false,
            user_changed: false,
        }
    }

    fn read(&mut self, cx: &RequestContext<'_>, origin: &Origin, request: &mut OsdOp) -> Ending {
        let Some((id, mut at_snapshot)) = self.find_readable(&identity(request), request.snap) else {
            // Without a version, as Ceph's OSDs (`OSDService::reply_op_error`).
            return Ending::failed(Errno::NOENT, &request.ops);
        };
        let mut execution = self.execution(cx, origin, id, at_snapshot.as_mut(), None);
        let (result, results) = run_all(&mut execution, &mut request.ops, cx.room);
        let user_version = execution.state.version;
        let effects = std::mem::take(&mut execution.effects);
        if result >= 0 && !effects.is_empty() {
            self.apply_effects(cx.now, origin, id, user_version, effects);
        }
        let depends_on = self.store.object(id).record;
        let usage = &mut self.store.pool_mut(request.pg.pg.pool).requests;
        usage.reads += 1;
        usage.read_bytes += results.iter().map(|op| op.output.len() as u64).sum::<u64>();
        Ending { result, results, user_version, depends_on, ..Ending::new(true) }
    }

    /// The object that a request reads, and, if that is another state than the newest, a copy of what it was at the snapshot.
    pub(super) fn find_readable(
        &self,
        identity: &Identity<'_>,
        snap: u64,
    ) -> Option<(ObjectId, Option<State>)> {
        let id = self.store.find(identity)?;
        let head = &self.store.object(id).state;
        match snap {
            NOSNAP => head.exists.then_some((id, None)),
            SNAPDIR => Some((id, None)),
            snap => match head.at_snapshot(snap) {
                Shown::Head => Some((id, None)),
                Shown::Clone(clone) => Some((id, Some(clone.state.clone()))),
                Shown::Nothing => None,
            },
        }
    }

    /// A copy of the object, if a write by this snapshot context has to keep what it is.
    fn to_keep(&self, object: Option<ObjectId>, snap_context: &SnapContext) -> Option<State> {
        let newest = *snap_context.snaps.first()?;
        let state = &self.store.object(object?).state;
        (state.exists && newest > state.snap_seq).then(|| state.clone())
    }

    /// Carries out a request that may change its object, and that was not done before. `version`: its group's. None: there
    /// is no room in the pool for what it brings, and it waits at its client until there is.
    fn write(
        &mut self,
        cx: &RequestContext<'_>,
        origin: &Origin,
        request: &mut OsdOp,
        reqid: &ReqId,
        version: EVersion,
    ) -> Option<Ending> {
        let (map, pg) = (cx.map, request.pg.pg);
        let epoch = map.epoch;
        let found = self.store.find(&identity(request));
        if found.is_none() && !admit::has_right_hash(request, map) {
            return Some(Ending::failed(Errno::INVAL, &request.ops));
        }
        if cx.copies.growth() > MAX_COPIED {
            return Some(Ending::failed(Errno::MSGSIZE, &request.ops));
        }
        let snap_context = &request.snap_context;
        let known = |id| self.store.object(id).state.snapset_seq();
        if request.flags & flag::ORDER_SNAP != 0 && found.and_then(known) > Some(snap_context.seq) {
            return Some(Ending::failed(Errno::OLDSNAPC, &request.ops));
        }
        // Held from here on, so that what is written needs memory of its own.
        let kept = self.to_keep(found, snap_context);
        let makes_clone = kept.is_some();
        if let Err(error) = self.check_space(cx, found, &request.ops) {
            return Some(self.refuse(cx, request, reqid, Ending::failed(error, &request.ops)));
        }
        let id = found.unwrap_or_else(|| self.store.prepare(&identity(request)));
        let brought: u64 = request.ops.iter().map(|(op, _)| admit::payload_len(op) as u64).sum();
        let before = Before::of(&self.store.object(id).state);
        let next = EVersion { version: version.version + 1, epoch };
        let noted = self.config.transactions;
        let mut mutations = Vec::new();

        let full = admit::full_pool(request, map);
        let may_be_undone = full.is_some() || admit::may_fail_half_way(&request.ops);
        let undo = kept.or_else(|| may_be_undone.then(|| self.store.object(id).state.clone()));
        let notes = noted.then_some(&mut mutations);
        let mut execution = self.execution(cx, origin, id, None, notes);
        if makes_clone {
            execution.keep_for(&request.snap_context);
        }
        let (mut result, mut results) = run_all(&mut execution, &mut request.ops, cx.room);
        let mut changed = execution.changed;
        let effects = std::mem::take(&mut execution.effects);
        let grows = changed && makes_clone || before.is_grown_to(&execution.state);
        let no_room = full.filter(|_| result >= 0 && grows);
        if (result < 0 && changed) || (makes_clone && !changed) || no_room.is_some() {
            if let Some(undo) = undo {
                execution.state.undo(undo);
            }
            changed = false;
        }
        if let Some(error) = no_room {
            self.settle(pg, id);
            let tries = request.flags & flag::FULL_TRY != 0;
            return tries.then(|| self.refuse(cx, request, reqid, Ending::undone(error, &results)));
        }
        if changed && result >= 0 {
            stamp(&mut execution, next.version, request.mtime);
            execution.know_of(&request.snap_context);
        }
        let user_version = execution.state.version;
        if result >= 0 && !effects.is_empty() {
            self.apply_effects(cx.now, origin, id, user_version, effects);
        }
        self.store.set_record(id, cx.record);
        let usage = &mut self.store.pool_mut(pg.pool).requests;
        usage.writes += 1;
        if changed {
            usage.written_bytes += brought;
            result = settle_outputs(request.flags, result, &mut results);
        }
        let share = self.outcomes_share();
        let group = self.settle(pg, id);
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
        let mut ending = Ending { result, results, version, user_version, ..Ending::new(true) };
        if noted {
            ending.changes(
                cx.record,
                Transaction {
                    pg,
                    object: Name::of(&identity(request)),
                    version: changed.then_some(next),
                    mutations,
                    outcome: Some((*reqid, done.clone())),
                },
            );
        }
        group.outcomes.record_first(reqid, done);
        group.outcomes.shrink_to(share);
        Some(ending)
    }

    /// Remembers that there was no room for a write. When it is sent again there may be, but what its client has written
    /// since was done.
    fn refuse(
        &mut self,
        cx: &RequestContext<'_>,
        request: &OsdOp,
        reqid: &ReqId,
        mut ending: Ending,
    ) -> Ending {
        let pg = request.pg.pg;
        let done = Done { result: ending.result, version: ending.version, user_version: 0, ops: None };
        if self.config.transactions {
            ending.changes(
                cx.record,
                Transaction {
                    pg,
                    object: Name::of(&identity(request)),
                    version: None,
                    mutations: Vec::new(),
                    outcome: Some((*reqid, done.clone())),
                },
            );
        }
        let share = self.outcomes_share();
        let outcomes = &mut self.groups.entry(pg).or_default().outcomes;
        outcomes.record_first(reqid, done);
        outcomes.shrink_to(share);
        ending
    }

    /// ENOSPC if the operations may need more memory than there is.
    fn check_space(&self, cx: &RequestContext<'_>, object: Option<ObjectId>, ops: &Ops) -> Result<(), Errno> {
        /// The share of the limit that data may fill, as a numerator and a denominator (`osd_failsafe_full_ratio`). The
        /// rest is kept for what small changes need, so that a full cluster can still be cleaned up: to remove an image
        /// is to take locks and to write notes first.
        const FOR_DATA: (u64, u64) = (97, 100);
        let (used, limit) = (self.store.used().max(cx.peers_used), self.config.memory_limit);
        let asked: u64 = ops.iter().fold(0, |sum, (op, _)| sum.saturating_add(admit::most_growth(op)));
        let for_data = (u128::from(limit) * u128::from(FOR_DATA.0) / u128::from(FOR_DATA.1)) as u64;
        let copied = cx.copies.growth();
        let asked = asked.saturating_add(copied);
        if used.saturating_add(asked) <= for_data {
            return Ok(());
        }
        let state = object.map(|id| &self.store.object(id).state);
        let growth: u64 = ops.iter().map(|(op, _)| admit::growth(op, state, self.config.null_writes)).sum();
        let growth = growth.saturating_add(copied);
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
    fn of(state: &State) -> Self {
        Self { existed: state.exists, size: state.size }
    }

    /// Has an object come to be, or become longer?
    fn is_grown_to(&self, state: &State) -> bool {
        (state.exists && !self.existed) || state.size > self.size
    }
}

/// Names the request, also if it is sent again (MOSDOp.h, get_reqid). A client that gets another number names requests of
/// before by the old one, so any number may stand there. The user becomes part of the name: otherwise one user could name
/// requests of another and have them taken for done.
fn request_id(request: &OsdOp, origin: &Origin, tid: u64) -> ReqId {
    let given = &request.reqid;
    let id = if given.name != EntityName::default() || given.tid != 0 {
        *given
    } else {
        ReqId { name: origin.name, tid, inc: request.client_incarnation as i32 }
    };
    ReqId { inc: id.inc ^ origin.user.0 as i32, ..id }
}

/// Carries out operations until one fails that must not. None is left. `room`: bytes that the outputs may have.
fn run_all(execution: &mut Execution<'_>, ops: &mut Ops, room: usize) -> (i32, Results) {
    let mut results = Results::with_capacity(ops.len());
    let (mut result, mut left) = (0, room);
    for (op, flags) in ops.drain(..) {
        let code = op.code();
        if result < 0 {
            results.push(OpResult { code, ..OpResult::default() });
            continue;
        }
        let outcome = execution.run(op).and_then(|(number, output)| {
            let rest = left.checked_sub(output.len());
            execution.exhausted |= rest.is_none();
            debug_assert!(rest.is_some() || room >= MAX_REPLY, "{code:#x} returns more than its bound");
            left = rest.ok_or(Errno::OVERFLOW)?;
            Ok((number, output))
        });
        match outcome {
            Ok((number, output)) => {
                result = number;
                results.push(OpResult { code, result, output });
            }
            Err(error) => {
                let number = error.result();
                let may_fail = flags & op_flag::FAIL_OK != 0 && !execution.exhausted;
                result = if may_fail { 0 } else { number };
                let output = std::mem::take(&mut execution.error_output);
                results.push(OpResult { code, result: number, output });
            }
        }
    }
    if execution.exhausted {
        results.iter_mut().for_each(|op| op.output = List::new());
    }
    (result, results)
}

/// Gives a changed object its version and time. The version of a copy, which is its source's, may be newer than the group's.
fn stamp(execution: &mut Execution<'_>, version: u64, mtime: Utime) {
    if execution.user_changed {
        let newer = execution.state.version.saturating_add(1);
        execution.state.stamp(version.max(newer));
    }
    if mtime != Utime::default() {
        execution.state.touch(mtime);
    }
}
