//! The object client: its requests, their limits and its timers.

use super::lingers::Lingers;
use super::session::OsdSession;
use super::table::{NOBODY, Owner, PendingOp, Table};
use super::target::Targets;
use super::tells::Tells;
use crate::client::config::{Config, OsdConfig};
use crate::client::error::{Error, errno};
use crate::client::hub::Hub;
use crate::client::metrics::{ClientFigures, Ended, Meter};
use crate::client::random::Random;
use crate::client::request::{OpId, Outcome, Rejected, Request};
use crate::messages::MAX_NAME_LEN;
use crate::ops::{MAX_CALL_NAME, MAX_OPS, MAX_PAYLOAD, MAX_READ, MAX_WRITE, Op as Operation, flag};
use crate::osdmap::OsdMap;
use crate::types::{EntityName, Epoch, ReqId};
use onego_wire::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Results that answer a request and are no failure: something exists, or does not (ENODATA: an attribute).
const ANSWERS: [i32; 3] = [errno::ENOENT, errno::EEXIST, -61];

/// Needs of the object client that the monitors serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wishes {
    /// OSD maps from this epoch on; 0: the newest full one.
    pub(crate) map: Option<Epoch>,
    /// Whether to subscribe permanently instead of once.
    pub(crate) forever: bool,
    pub(crate) newest: bool,
}

#[derive(Debug)]
pub(crate) struct Objecter<T> {
    pub(super) config: OsdConfig,
    pub(super) table: Table<T>,
    pub(super) in_flight: usize,
    pub(super) bytes: u64,
    pub(super) targets: Targets,
    pub(super) epoch: Epoch,
    /// Own epoch at the last update that did not follow it.
    pub(super) gap_after: Epoch,
    pub(super) sessions: Vec<Option<Box<OsdSession>>>,
    pub(super) lingers: Lingers<T>,
    pub(super) tells: Tells<T>,
    pub(super) wishes: Wishes,
    /// Full pools with waiting writes that were logged.
    pub(super) waited_for: BTreeSet<i64>,
    /// The last request that an in-flight query of the newest epoch covers.
    pub(super) asked_newest: Option<u64>,
    pub(super) random: Random,
    pub(super) meter: Meter,
    pub(super) wakeup: Option<Time>,
    pub(super) tick: Option<Time>,
    pub(super) closed: bool,
}

impl<T> Objecter<T> {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: OsdConfig { max_ops: config.osd.max_ops.min(OsdConfig::MAX_OPS), ..config.osd },
            table: Table::new(),
            in_flight: 0,
            bytes: 0,
            targets: Targets::new(config.versions, config.as_osd),
            epoch: 0,
            gap_after: 0,
            sessions: Vec::new(),
            lingers: Lingers::default(),
            tells: Tells::new(),
            // The first map.
            wishes: Wishes { map: Some(0), ..Wishes::default() },
            waited_for: BTreeSet::new(),
            asked_newest: None,
            random: Random::new(config.seed),
            meter: Meter::new(config.osd.slow),
            wakeup: None,
            tick: None,
            closed: false,
        }
    }

    pub(crate) fn map(&self) -> Option<&Arc<OsdMap>> {
        self.targets.map()
    }

    pub(crate) fn figures(&self) -> ClientFigures {
        self.meter.figures()
    }

    pub(crate) fn load(&self) -> (usize, u64) {
        (self.in_flight, self.bytes)
    }

    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.table.len() > 0 || !self.tells.is_empty()
    }

    /// Handles a change of the client's name from `before`: requests that were sent carry it from now on, instead of
    /// the sender's.
    pub(crate) fn name_sent(&mut self, before: EntityName) {
        for tid in self.table.ordered(|op| op.attempts > 0 && op.message.reqid == ReqId::default()) {
            if let Some(op) = self.table.get_mut(tid) {
                let inc = op.message.client_incarnation as i32;
                op.message.reqid = ReqId { name: before, tid, inc };
            }
        }
    }

    #[inline]
    pub(crate) fn take_wishes(&mut self) -> Option<Wishes> {
        if self.wishes == Wishes::default() { None } else { Some(std::mem::take(&mut self.wishes)) }
    }

    pub(super) fn wish_newer(&mut self) {
        self.wishes.map = Some(if self.epoch == 0 { 0 } else { self.epoch + 1 });
        // While requests are paused, the map that ends the pause must not be missed.
        self.wishes.forever = self.targets.restricts();
    }

    pub(crate) fn want_newer_map(&mut self) {
        self.wish_newer();
    }

    #[inline]
    pub(super) fn check_room(&self, cost: u64) -> Result<(), Error> {
        if self.in_flight >= self.config.max_ops {
            return Err(Error::Busy { what: "requests in flight", bound: self.config.max_ops as u64 });
        }
        if self.bytes.saturating_add(cost) > self.config.max_bytes && self.in_flight > 0 {
            return Err(Error::Busy { what: "bytes in flight", bound: self.config.max_bytes });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn has_room(&self, cost: u64) -> bool {
        !self.closed && self.check_room(cost).is_ok()
    }

    pub(crate) fn submit(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        request: Request,
        ticket: T,
    ) -> Result<OpId, Box<Rejected<T>>> {
        let cost = request.cost();
        let taken = if self.closed { Err(Error::Closed) } else { check(&request, cost) };
        if let Err(error) = taken.and_then(|()| self.check_room(cost)) {
            return Err(Box::new(Rejected { request, ticket, error }));
        }
        self.in_flight += 1;
        self.bytes += cost;
        self.meter.tick(now);
        self.meter.begin(request.pool, self.targets.map().map(Arc::as_ref));
        let flags = request.all_flags();
        let tid = self.insert(now, request, flags, Owner::Caller(ticket), cost);
        self.resolve_and_send(now, hub, tid);
        Ok(OpId(tid))
    }

    /// Adds a request to the table. (Inlined, because a request is large and would be copied several times.)
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        now: Time,
        request: Request,
        flags: u32,
        owner: Owner<T>,
        cost: u64,
    ) -> u64 {
        let timeout = match owner {
            Owner::Caller(_) => request.timeout.or(self.config.request_timeout),
            _ => None,
        };
        self.wake_by(timeout.map(|timeout| now + timeout));
        let (tid, op) = self.table.claim();
        op.fill(now, request, owner, timeout);
        op.message.flags = flags;
        op.cost = cost;
        tid
    }

    /// Cancels a request. It ends with [`Error::Cancelled`] once its buffer is released.
    pub(crate) fn cancel(&mut self, hub: &mut Hub<T>, id: OpId) {
        if let Some(tid) = self.table.current(id.0) {
            self.fail(hub, tid, Error::Cancelled);
        }
    }

    pub(crate) fn cancel_where(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        for tid in self.table.ordered(|op| matches!(&op.owner, Owner::Caller(ticket) if unwanted(ticket))) {
            self.fail(hub, tid, Error::Cancelled);
        }
        self.cancel_notifies(hub, unwanted);
        self.tells.cancel_where(hub, unwanted);
    }

    /// Fails a request, at once or, while a payload is being received into its buffer, as soon as that has ended.
    pub(super) fn fail(&mut self, hub: &mut Hub<T>, tid: u64, error: Error) {
        let Some(op) = self.table.get_mut(tid) else { return };
        if op.landing {
            op.sent_on = None;
            op.failed.get_or_insert(error);
        } else {
            self.finish(hub, tid, Err(error));
        }
    }

    /// Ends a request. (Inlined, because the outcome is large and would be copied several times.)
    #[inline(always)]
    pub(super) fn finish(&mut self, hub: &mut Hub<T>, tid: u64, outcome: Result<Outcome, Error>) {
        self.count(tid, &outcome);
        let Some((owner, buffer, cost)) = self.table.remove(tid) else { return };
        match owner {
            Owner::Caller(ticket) => {
                self.in_flight -= 1;
                self.bytes -= cost;
                hub.complete(ticket, outcome, buffer);
            }
            owner => self.linger_finished(hub, owner, outcome),
        }
    }

    #[inline]
    fn count(&self, tid: u64, outcome: &Result<Outcome, Error>) {
        let Some(op) = self.table.get(tid).filter(|op| matches!(op.owner, Owner::Caller(_))) else { return };
        let writes = op.message.flags & flag::WRITE != 0;
        let (read, has_failed) = match outcome {
            Ok(Outcome::Reply(reply)) => {
                (reply.bytes(), reply.result < 0 && !ANSWERS.contains(&reply.result))
            }
            Ok(_) => (0, false),
            Err(_) => (0, true),
        };
        self.meter.end(&Ended {
            pool: op.pool,
            object: &op.message.object,
            osd: op.osd,
            writes,
            bytes: if writes { op.cost } else { read },
            has_failed,
            since: op.since,
            sent_at: op.sent_at,
            attempts: op.attempts,
        });
    }

    #[inline]
    pub(super) fn wake_by(&mut self, time: Option<Time>) {
        if let Some(time) = time {
            self.wakeup = Some(self.wakeup.map_or(time, |wakeup| wakeup.min(time)));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.wakeup
    }

    pub(crate) fn timeout(&mut self, now: Time, hub: &mut Hub<T>) {
        if self.wakeup.is_none_or(|wakeup| now < wakeup) {
            return;
        }
        self.meter.tick(now);
        self.expire(now, hub);
        self.tells.expire(now, hub);
        self.retry(now, hub);
        self.send_postponed(now, hub);
        self.end_slow_start(now, hub);
        if self.tick.is_some_and(|tick| tick <= now) {
            self.tick = None;
            self.look_after(now, hub);
        }
        let sessions = || self.sessions.iter().flatten();
        let retries =
            sessions().filter(|session| session.conn.is_none()).filter_map(|session| session.retry_at);
        let careful = sessions().filter_map(|session| session.slow_start_until());
        let deadlines = self.table.iter().filter(|op| op.failed.is_none()).filter_map(|op| op.deadline);
        let postponed = self.table.iter().filter_map(|op| op.not_before);
        let tells = self.tells.deadline();
        self.wakeup =
            deadlines.chain(postponed).chain(retries).chain(careful).chain(tells).chain(self.tick).min();
    }

    pub(super) fn expire(&mut self, now: Time, hub: &mut Hub<T>) {
        let late =
            |op: &PendingOp<T>| op.failed.is_none() && op.deadline.is_some_and(|deadline| deadline <= now);
        for tid in self.table.ordered(late) {
            let Some(op) = self.table.get(tid) else { continue };
            let waiting = Some(Box::new(self.explain(now, op)));
            let stuck = op.sent_on.filter(|_| op.landing);
            let error = Error::Timeout { after: op.timeout, waiting };
            self.fail(hub, tid, error.clone());
            // Part of a payload is in the caller's buffer, and the rest did not arrive in all that time: only closing
            // the connection releases the buffer.
            if let Some(conn) = stuck {
                self.reset(now, hub, conn, error);
            }
        }
    }

    /// Performs periodic maintenance: requests a newer map if OSDs are slow to reply, closes idle connections, and
    /// pings for watches.
    pub(super) fn look_after(&mut self, now: Time, hub: &mut Hub<T>) {
        let slow = now - self.config.laggy;
        if self.table.iter().any(|op| op.osd == NOBODY || (op.sent_on.is_some() && op.sent_at < slow)) {
            self.wish_newer();
        }
        self.close_idle(now, hub);
        self.tend_lingers(now, hub);
        self.start_tick(now);
    }

    /// Schedules the next [`look_after`](Self::look_after) if there is anything to maintain.
    pub(super) fn start_tick(&mut self, now: Time) {
        let needed =
            self.table.len() > 0 || !self.lingers.is_empty() || self.sessions.iter().any(Option::is_some);
        if self.tick.is_none() && needed {
            let tick = now + self.config.ping_interval.max(Duration::from_millis(1));
            self.tick = Some(tick);
            self.wake_by(Some(tick));
        }
    }

    /// Fails all requests. The caller has closed the connections before, so only the driver can hold buffers.
    pub(crate) fn close(&mut self, hub: &mut Hub<T>) {
        self.closed = true;
        self.sessions.clear();
        for tid in self.table.ordered(|_| true) {
            self.fail(hub, tid, Error::Closed);
        }
        self.close_lingers(hub);
        self.tells.close(hub);
        (self.wakeup, self.tick) = (None, None);
    }
}

fn check(request: &Request, cost: u64) -> Result<(), Error> {
    if request.ops.is_empty() {
        return Err(Error::Invalid("it has no operations"));
    }
    if request.ops.len() > MAX_OPS {
        return Err(Error::Invalid("it has too many operations"));
    }
    if request.object.len() > MAX_NAME_LEN {
        let (what, len) = ("the object", request.object.len());
        return Err(Error::NameTooLong { what, len, bound: MAX_NAME_LEN });
    }
    for (op, _) in &request.ops {
        if let Operation::Call { class, method, .. } = op {
            check_call(class, method)?;
        }
    }
    if request.object.is_empty() != request.group.is_some() {
        return Err(Error::Invalid("it must address either an object or a placement group"));
    }
    if cost > MAX_WRITE {
        check_size(request, cost)?;
    }
    if let Some(buffer) = &request.read_into {
        match request.ops.as_slice() {
            [(Operation::Read { length, .. }, _)] if *length <= buffer.len() as u64 => {}
            [(Operation::Read { .. }, _)] => {
                return Err(Error::Invalid("the buffer is smaller than the read"));
            }
            _ => return Err(Error::Invalid("only a single read can go to a buffer")),
        }
    }
    Ok(())
}

/// Checks the names whose lengths are single bytes on the wire.
fn check_call(class: &str, method: &str) -> Result<(), Error> {
    for (what, name) in [("a class", class), ("a class method", method)] {
        if name.len() > MAX_CALL_NAME {
            return Err(Error::NameTooLong { what, len: name.len(), bound: MAX_CALL_NAME });
        }
    }
    Ok(())
}

/// Checks the sizes of a request and of its reply.
#[cold]
fn check_size(request: &Request, cost: u64) -> Result<(), Error> {
    let payload = request.payload();
    let too_large =
        |what, len, bound| if len > bound { Err(Error::TooLarge { what, len, bound }) } else { Ok(()) };
    if request.all_flags() & flag::WRITE != 0 {
        too_large("a change", payload, MAX_WRITE)?;
    }
    too_large("a request", payload, MAX_PAYLOAD.into())?;
    too_large("a read", cost - payload, MAX_READ)
}

/// Converts a watch operation's errno: the watch of a deleted object counts as lost.
pub(super) fn watch_error(errno: i32) -> Error {
    Error::WatchLost { errno: if errno == errno::ENOENT { errno::ENOTCONN } else { errno } }
}
