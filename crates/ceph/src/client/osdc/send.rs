//! Sends requests, and opens and closes connections.

use super::objects::Objecter;
use super::session::OsdSession;
use super::table::NOBODY;
use super::target::{NoTarget, OpTarget, is_split};
use crate::client::error::{Error, errno};
use crate::client::hub::{Ended, Hub, Role};
use crate::client::request::Event;
use crate::ops::flag;
use crate::types::{EntityName, ReqId};
use onego_buf::SegmentMut;
use onego_msgr::{Connection, Event as LinkEvent};
use onego_wire::{ConnId, Time};
use std::time::Duration;

/// Maximum number of consecutive connections that a request may end, alone on each, before it fails. With the delays
/// in between that takes about a second: an OSD that is shutting down has closed its port by then.
const MAX_REJECTIONS: u32 = 8;

impl<T> Objecter<T> {
    #[inline]
    pub(super) fn resolve_and_send(&mut self, now: Time, hub: &mut Hub<T>, tid: u64) {
        match self.resolve_target(tid) {
            Ok(target) => {
                self.apply_target(tid, target);
                if target.osd == NOBODY || target.paused {
                    self.wish_newer();
                }
                if target.paused {
                    self.tell_of_full_pool(target.pg.pg.pool);
                }
                self.send(now, hub, tid);
            }
            Err(no_target) => self.handle_no_target(hub, tid, no_target),
        }
        if self.tick.is_none() {
            self.start_tick(now);
        }
    }

    #[inline]
    pub(super) fn resolve_target(&mut self, tid: u64) -> Result<OpTarget, NoTarget> {
        let Some(op) = self.table.get_mut(tid) else { return Err(NoTarget::NoMap) };
        if !op.hashed {
            if self.targets.map().is_none() {
                return Err(NoTarget::NoMap);
            }
            let hash = self.targets.hash(op.pool, &op.message.object, &op.message.locator);
            op.message.hash = hash.ok_or(NoTarget::NoPool)?;
            op.hashed = true;
        }
        self.targets.find(op.pool, op.message.hash, op.message.flags, op.osd, &mut self.random)
    }

    /// Applies a target from [`resolve_target`](Self::resolve_target). Returns whether it invalidates the last attempt.
    #[inline]
    pub(super) fn apply_target(&mut self, tid: u64, target: OpTarget) -> bool {
        let Some(op) = self.table.get_mut(tid) else { return false };
        let void = op.osd != target.osd
            || op.message.pg != target.pg
            || (op.pg_num != target.pg_num && is_split(target.pg.pg.seed, op.pg_num, target.pg_num))
            || (op.paused && !target.paused)
            || op.sent_epoch < target.resend_before;
        op.osd = target.osd;
        op.replica = target.replica;
        op.message.pg = target.pg;
        op.message.locator.pool = target.pg.pg.pool;
        op.pg_num = target.pg_num;
        op.paused = target.paused;
        op.no_pool = false;
        op.pool_missing_since = 0;
        void
    }

    pub(super) fn handle_no_target(&mut self, hub: &mut Hub<T>, tid: u64, no_target: NoTarget) {
        let Some(op) = self.table.get_mut(tid) else { return };
        op.osd = NOBODY;
        op.sent_on = None;
        match no_target {
            NoTarget::NoMap => {}
            NoTarget::BadPool => self.fail(hub, tid, Error::Refused { errno: errno::EIO }),
            NoTarget::NoPool => {
                op.no_pool = true;
                // It existed when the request was sent, so it was deleted since.
                if op.attempts > 0 {
                    op.pool_missing_since = self.epoch;
                }
                self.check_pool(hub, tid);
            }
        }
    }

    /// Fails a request to a missing pool if the map is new enough to tell (Objecter.cc,
    /// _check_op_pool_dne); otherwise queries how new it must be.
    fn check_pool(&mut self, hub: &mut Hub<T>, tid: u64) {
        let Some(op) = self.table.get(tid) else { return };
        let pool = op.pool;
        match op.pool_missing_since {
            0 => self.wishes.newest |= self.asked_newest.is_none(),
            since if since <= self.epoch => self.fail(hub, tid, Error::NoPool(pool)),
            _ => self.wish_newer(),
        }
    }

    pub(crate) fn asking_newest(&mut self) {
        self.asked_newest = Some(self.table.last());
    }

    /// Handles the newest epoch as of the query.
    pub(crate) fn newest(&mut self, hub: &mut Hub<T>, newest: u32) {
        let Some(last) = self.asked_newest.take() else { return };
        for tid in self.table.ordered(|op| op.no_pool && op.pool_missing_since == 0) {
            if tid <= last
                && let Some(op) = self.table.get_mut(tid)
            {
                op.pool_missing_since = newest.max(1);
            }
            self.check_pool(hub, tid);
        }
    }

    /// Sends a request if possible. Otherwise it is sent later: when the connection is ready, the map allows it,
    /// the OSD ends its backoff, or its buffer is returned.
    #[inline]
    pub(super) fn send(&mut self, now: Time, hub: &mut Hub<T>, tid: u64) {
        let Some(op) = self.table.get_mut(tid) else { return };
        if op.osd == NOBODY || op.paused || op.landing || op.failed.is_some() || op.sent_on.is_some() {
            return;
        }
        if op.not_before.is_some() {
            return;
        }
        let osd = op.osd;
        let Some(Some(session)) = self.sessions.get_mut(osd as usize) else {
            return self.open(now, hub, osd);
        };
        let Some(conn) = session.conn else { return self.open(now, hub, osd) };
        if !session.ready || (!session.backoffs.is_empty() && session.backoffs.hold(&op.message)) {
            return;
        }
        // Without turns left, all later requests wait too, so that their order is kept.
        if !session.take_turn() {
            return;
        }
        session.used_at = now;
        op.message.epoch = self.epoch;
        op.message.attempt = op.attempts;
        if op.attempts > 0 {
            op.message.flags |= flag::RETRY;
            self.meter.retry();
        }
        op.attempts += 1;
        op.sent_on = Some(conn);
        op.sent_at = now;
        op.sent_epoch = self.epoch;
        hub.send(conn, tid, &op.message);
    }

    /// Resubmits a request under a new tid after EAGAIN, because the OSD remembers its answer to the old one. It goes to the
    /// primary: at once the first time, then with a growing delay (Objecter.cc, handle_osd_op_reply, which does not
    /// delay it).
    pub(super) fn retry_with_new_tid(&mut self, now: Time, hub: &mut Hub<T>, tid: u64) {
        /// First delay; it doubles each time.
        const PAUSE: Duration = Duration::from_millis(10);
        /// Maximum number of doublings: up to 1.3 s.
        const DOUBLINGS: u32 = 7;
        let Some((tid, op)) = self.table.renew(tid) else { return };
        op.message.flags &= !(flag::BALANCE_READS | flag::LOCALIZE_READS | flag::RETRY);
        op.message.reqid = ReqId::default();
        (op.sent_on, op.attempts) = (None, 0);
        if op.renewals > 0 {
            let doublings = (op.renewals - 1).min(DOUBLINGS);
            op.not_before = Some(now + PAUSE * (1 << doublings));
            if doublings == DOUBLINGS {
                tracing::warn!(osd = op.osd, object = ?op.message.object, "an OSD keeps answering EAGAIN to a request");
            }
        }
        op.renewals = op.renewals.saturating_add(1);
        let not_before = op.not_before;
        self.wake_by(not_before);
        self.resolve_and_send(now, hub, tid);
    }

    pub(super) fn send_postponed(&mut self, now: Time, hub: &mut Hub<T>) {
        for tid in self.table.ordered(|op| op.not_before.is_some_and(|at| at <= now)) {
            if let Some(op) = self.table.get_mut(tid) {
                op.not_before = None;
            }
            self.send(now, hub, tid);
        }
    }

    pub(super) fn send_all(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        for tid in self.table.ordered(|op| op.osd == osd && op.sent_on.is_none()) {
            self.send(now, hub, tid);
        }
    }

    /// Opens a connection to an OSD, unless the last one failed a moment ago.
    pub(super) fn open(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        let Some(addr) = self.targets.addr(osd) else { return };
        let at = osd as usize;
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        let session =
            self.sessions[at].get_or_insert_with(|| Box::new(OsdSession::new(addr, now, &self.config)));
        if session.conn.is_some() {
            return;
        }
        if session.retry_at.is_some_and(|at| now < at) {
            let retry_at = session.retry_at;
            return self.wake_by(retry_at);
        }
        // Only a session that had a connection waits for this time.
        if session.retry_at.take().is_some() {
            self.meter.reconnect();
        }
        session.used_at = now;
        session.conn = hub.open(now, Role::Osd(osd), addr);
    }

    pub(super) fn session(&mut self, osd: i32) -> Option<&mut OsdSession> {
        self.sessions.get_mut(usize::try_from(osd).ok()?)?.as_deref_mut()
    }

    pub(super) fn session_on(&mut self, osd: i32, conn: ConnId) -> Option<&mut OsdSession> {
        self.session(osd).filter(|session| session.conn == Some(conn))
    }

    pub(crate) fn ready(&mut self, now: Time, hub: &mut Hub<T>, osd: i32, conn: ConnId) {
        if let Some(session) = self.session_on(osd, conn) {
            session.begin(now);
            let slow_start_until = session.slow_start_until();
            self.wake_by(slow_start_until);
            self.send_all(now, hub, osd);
            self.send_tells(now, hub, osd);
        }
    }

    /// Handles the end of a connection to an OSD: its requests are resent on the next one.
    pub(crate) fn lost(&mut self, now: Time, hub: &mut Hub<T>, osd: i32, conn: ConnId, error: Error) {
        let random = self.random.next();
        let Some(session) = self.session_on(osd, conn) else { return };
        let addr = session.addr;
        let is_blamed = session.blames_requests(&error);
        session.lost(now, error.clone(), random);
        let rejected = if is_blamed { self.rejected(conn) } else { None };
        hub.tell(Event::Fault { peer: EntityName::osd(osd), addr: Some(addr), error: error.clone() });
        self.void(conn);
        if let Some(tid) = rejected {
            self.session(osd).into_iter().for_each(|session| session.reset_backoff(now));
            let error = Box::new(error);
            self.fail(hub, tid, Error::Rejected { osd, tries: MAX_REJECTIONS, error });
        }
        self.wish_newer();
        self.renew_on(now, hub, osd);
        if self.table.iter().any(|op| op.osd == osd) || self.tells.are_on(osd) {
            self.open(now, hub, osd);
        }
    }

    /// Counts the end of a connection against the only request on it. Returns the request if it has reached the
    /// limit.
    fn rejected(&mut self, conn: ConnId) -> Option<u64> {
        let [tid] = self.table.ordered(|op| op.sent_on == Some(conn))[..] else { return None };
        let op = self.table.get_mut(tid)?;
        op.rejections += 1;
        (op.rejections >= MAX_REJECTIONS).then_some(tid)
    }

    fn void(&mut self, conn: ConnId) {
        self.tells.void(conn);
        for tid in self.table.ordered(|op| op.sent_on == Some(conn)) {
            if let Some(op) = self.table.get_mut(tid) {
                op.sent_on = None;
            }
        }
    }

    pub(super) fn reset(&mut self, now: Time, hub: &mut Hub<T>, conn: ConnId, error: Error) {
        if let Some(ended) = hub.close(conn) {
            let role = ended.role;
            self.reclaim_buffers(now, hub, ended);
            if let Role::Osd(osd) = role {
                self.lost(now, hub, osd, conn, error);
            }
        }
    }

    pub(crate) fn reclaim_buffers(&mut self, now: Time, hub: &mut Hub<T>, ended: Ended) {
        if let Some(connection) = ended.connection {
            self.drain_events(now, hub, connection);
        }
    }

    /// Drains the last events of a connection that has ended.
    pub(crate) fn drain_events(&mut self, now: Time, hub: &mut Hub<T>, mut connection: Connection) {
        while let Some(event) = connection.poll() {
            if let LinkEvent::Unplaced(header, buffer) = event {
                self.unplaced(now, hub, header.tid, buffer);
            }
        }
    }

    /// Handles the return of a part of a request's buffer without its payload.
    pub(crate) fn unplaced(&mut self, now: Time, hub: &mut Hub<T>, tid: u64, part: SegmentMut) {
        let Some(op) = self.table.get_mut(tid) else { return };
        op.take_back(part);
        if let Some(error) = op.failed.take() {
            self.finish(hub, tid, Err(error));
        } else {
            self.send(now, hub, tid);
        }
    }

    /// Reopens connections whose delay is over, if requests wait for them.
    pub(super) fn retry(&mut self, now: Time, hub: &mut Hub<T>) {
        let due =
            |session: &OsdSession| session.conn.is_none() && session.retry_at.is_some_and(|at| at <= now);
        let osds: Vec<usize> = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(_, session)| session.as_deref().is_some_and(due))
            .map(|(osd, _)| osd)
            .collect();
        for osd in osds {
            let id = osd as i32;
            if self.table.iter().any(|op| op.osd == id && !op.paused) || self.tells.are_on(id) {
                self.open(now, hub, osd as i32);
            } else {
                self.sessions[osd] = None;
            }
        }
    }

    pub(super) fn end_slow_start(&mut self, now: Time, hub: &mut Hub<T>) {
        for osd in 0..self.sessions.len() {
            if self.sessions[osd].as_deref_mut().is_some_and(|session| session.end_slow_start(now)) {
                self.send_all(now, hub, osd as i32);
            }
        }
    }

    pub(super) fn close_idle(&mut self, now: Time, hub: &mut Hub<T>) {
        let before = now - self.config.idle_timeout;
        for osd in 0..self.sessions.len() {
            let Some(session) = &self.sessions[osd] else { continue };
            let id = osd as i32;
            let needed = session.used_at > before
                || self.table.iter().any(|op| op.osd == id)
                || self.lingers.are_on(id)
                || self.tells.are_on(id);
            if !needed {
                self.drop_session(now, hub, id);
            }
        }
    }

    /// Drops the session with an OSD; its requests become unsent.
    pub(super) fn drop_session(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        let session =
            usize::try_from(osd).ok().and_then(|at| self.sessions.get_mut(at)).and_then(Option::take);
        if let Some(conn) = session.and_then(|session| session.conn) {
            self.void(conn);
            if let Some(ended) = hub.close(conn) {
                self.reclaim_buffers(now, hub, ended);
            }
        }
    }
}
