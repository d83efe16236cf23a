//! From a request that is taken to a message on a connection.

use super::objects::Objects;
use super::session::OsdSession;
use super::table::NOBODY;
use super::target::{Astray, OpTarget, is_split};
use crate::client::error::{Error, errno};
use crate::client::hub::{Ended, Hub, Role};
use crate::client::request::Event;
use crate::ops::flag;
use crate::types::{EntityName, ReqId};
use onego_buf::SegmentMut;
use onego_msgr::{Connection, Event as LinkEvent};
use onego_wire::{ConnId, Time};
use std::time::Duration;

/// Connections that a request may end, one after the other and alone on each, before it fails. With the waits between
/// them that takes a second or so: an OSD that is just going down has no open port by then.
const MAX_REJECTIONS: u32 = 8;

impl<T> Objects<T> {
    /// Aims a request and sends it, if it can be sent now.
    #[inline]
    pub(super) fn launch(&mut self, now: Time, hub: &mut Hub<T>, tid: u64) {
        match self.aim(tid) {
            Ok(target) => {
                self.take_aim(tid, target);
                if target.osd == NOBODY || target.paused {
                    self.wish_newer();
                }
                if target.paused {
                    self.tell_of_full_pool(target.pg.pg.pool);
                }
                self.send(now, hub, tid);
            }
            Err(astray) => self.stray(hub, tid, astray),
        }
        if self.tick.is_none() {
            self.start_tick(now);
        }
    }

    /// Where a request goes by the map as it is.
    #[inline]
    pub(super) fn aim(&mut self, tid: u64) -> Result<OpTarget, Astray> {
        let Some(op) = self.table.get_mut(tid) else { return Err(Astray::NoMap) };
        if !op.hashed {
            if self.targets.map().is_none() {
                return Err(Astray::NoMap);
            }
            let hash = self.targets.hash(op.pool, &op.message.object, &op.message.locator);
            op.message.hash = hash.ok_or(Astray::NoPool)?;
            op.hashed = true;
        }
        self.targets.find(op.pool, op.message.hash, op.message.flags, op.osd, &mut self.random)
    }

    /// Takes what [`aim`](Self::aim) found. `true`: what was sent before is void.
    #[inline]
    pub(super) fn take_aim(&mut self, tid: u64, target: OpTarget) -> bool {
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

    /// A request goes nowhere by the map as it is.
    pub(super) fn stray(&mut self, hub: &mut Hub<T>, tid: u64, astray: Astray) {
        let Some(op) = self.table.get_mut(tid) else { return };
        op.osd = NOBODY;
        op.sent_on = None;
        match astray {
            Astray::NoMap => {}
            Astray::BadPool => self.fail(hub, tid, Error::Refused { errno: errno::EIO }),
            Astray::NoPool => {
                op.no_pool = true;
                // It was there when the request was sent, so it was deleted since.
                if op.attempts > 0 {
                    op.pool_missing_since = self.epoch;
                }
                self.check_pool(hub, tid);
            }
        }
    }

    /// Fails a request to a pool that does not exist if the map is new enough to tell (Objecter.cc,
    /// _check_op_pool_dne); else finds out how new it must be.
    fn check_pool(&mut self, hub: &mut Hub<T>, tid: u64) {
        let Some(op) = self.table.get(tid) else { return };
        let pool = op.pool;
        match op.pool_missing_since {
            0 => self.wishes.newest |= self.asked_newest.is_none(),
            since if since <= self.epoch => self.fail(hub, tid, Error::NoPool(pool)),
            _ => self.wish_newer(),
        }
    }

    /// The newest epoch is being asked for.
    pub(crate) fn asking_newest(&mut self) {
        self.asked_newest = Some(self.table.last());
    }

    /// The newest epoch that there was when it was asked for.
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

    /// Sends a request if nothing stands against it. It is sent later otherwise: when the connection is open, the map
    /// allows it, the OSD lifts its backoff, or its buffer comes back.
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
        // Where none is left every request behind this one waits too, so that their order stays.
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

    /// Makes a request anew that an OSD does not want to decide on (EAGAIN): with another id, because the OSD remembers what
    /// it has answered to this one; at the primary; and at once, but from the second time on after a pause (Objecter.cc,
    /// handle_osd_op_reply, which makes none).
    pub(super) fn make_anew(&mut self, now: Time, hub: &mut Hub<T>, tid: u64) {
        /// The first pause; each is twice as long as the one before.
        const PAUSE: Duration = Duration::from_millis(10);
        /// Doublings of it: up to 1.3 s.
        const DOUBLINGS: u32 = 7;
        let Some((tid, op)) = self.table.renew(tid) else { return };
        op.message.flags &= !(flag::BALANCE_READS | flag::LOCALIZE_READS | flag::RETRY);
        op.message.reqid = ReqId::default();
        (op.sent_on, op.attempts) = (None, 0);
        if op.renewals > 0 {
            let doublings = (op.renewals - 1).min(DOUBLINGS);
            op.not_before = Some(now + PAUSE * (1 << doublings));
            if doublings == DOUBLINGS {
                tracing::warn!(osd = op.osd, object = ?op.message.object, "an OSD does not decide on a request (EAGAIN)");
            }
        }
        op.renewals = op.renewals.saturating_add(1);
        let not_before = op.not_before;
        self.wake_by(not_before);
        self.launch(now, hub, tid);
    }

    /// Sends the requests whose pause is over.
    pub(super) fn send_postponed(&mut self, now: Time, hub: &mut Hub<T>) {
        for tid in self.table.ordered(|op| op.not_before.is_some_and(|at| at <= now)) {
            if let Some(op) = self.table.get_mut(tid) {
                op.not_before = None;
            }
            self.send(now, hub, tid);
        }
    }

    /// Sends all requests to an OSD that are not sent, in order.
    pub(super) fn send_all(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        for tid in self.table.ordered(|op| op.osd == osd && op.sent_on.is_none()) {
            self.send(now, hub, tid);
        }
    }

    /// Opens a connection to an OSD, unless it failed a moment ago.
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
        // A session that has begun to wait for this had a connection.
        if session.retry_at.take().is_some() {
            self.meter.reconnect();
        }
        session.used_at = now;
        session.conn = hub.open(now, Role::Osd(osd), addr);
    }

    pub(super) fn session(&mut self, osd: i32) -> Option<&mut OsdSession> {
        self.sessions.get_mut(usize::try_from(osd).ok()?)?.as_deref_mut()
    }

    /// The session with an OSD, if it is on this connection.
    pub(super) fn session_on(&mut self, osd: i32, conn: ConnId) -> Option<&mut OsdSession> {
        self.session(osd).filter(|session| session.conn == Some(conn))
    }

    /// Messages may flow to an OSD.
    pub(crate) fn ready(&mut self, now: Time, hub: &mut Hub<T>, osd: i32, conn: ConnId) {
        if let Some(session) = self.session_on(osd, conn) {
            session.begin(now);
            let careful_until = session.careful_until();
            self.wake_by(careful_until);
            self.send_all(now, hub, osd);
            self.send_tells(now, hub, osd);
        }
    }

    /// The connection to an OSD is over: what was sent on it is sent again on the next.
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
            self.session(osd).into_iter().for_each(|session| session.absolve(now));
            let error = Box::new(error);
            self.fail(hub, tid, Error::Rejected { osd, tries: MAX_REJECTIONS, error });
        }
        self.wish_newer();
        self.renew_on(now, hub, osd);
        if self.table.iter().any(|op| op.osd == osd) || self.tells.are_on(osd) {
            self.open(now, hub, osd);
        }
    }

    /// Holds the end of a connection against the request that was alone on it. Returns the request if it has ended as many
    /// as it may.
    fn rejected(&mut self, conn: ConnId) -> Option<u64> {
        let [tid] = self.table.ordered(|op| op.sent_on == Some(conn))[..] else { return None };
        let op = self.table.get_mut(tid)?;
        op.rejections += 1;
        (op.rejections >= MAX_REJECTIONS).then_some(tid)
    }

    /// No reply can come on this connection any more.
    fn void(&mut self, conn: ConnId) {
        self.tells.void(conn);
        for tid in self.table.ordered(|op| op.sent_on == Some(conn)) {
            if let Some(op) = self.table.get_mut(tid) {
                op.sent_on = None;
            }
        }
    }

    /// Closes a connection to an OSD from this side.
    pub(super) fn reset(&mut self, now: Time, hub: &mut Hub<T>, conn: ConnId, error: Error) {
        if let Some(ended) = hub.close(conn) {
            let role = ended.role;
            self.bury(now, hub, ended);
            if let Role::Osd(osd) = role {
                self.lost(now, hub, osd, conn, error);
            }
        }
    }

    /// Takes back the buffer that a connection may have had when it ended.
    pub(crate) fn bury(&mut self, now: Time, hub: &mut Hub<T>, ended: Ended) {
        if let Some(connection) = ended.connection {
            self.last_words(now, hub, connection);
        }
    }

    /// Polls a connection that is over for the last time.
    pub(crate) fn last_words(&mut self, now: Time, hub: &mut Hub<T>, mut connection: Connection) {
        while let Some(event) = connection.poll() {
            if let LinkEvent::Unplaced(header, buffer) = event {
                self.unplaced(now, hub, header.tid, buffer);
            }
        }
    }

    /// A part of a request's buffer comes back without what was to land in it.
    pub(crate) fn unplaced(&mut self, now: Time, hub: &mut Hub<T>, tid: u64, part: SegmentMut) {
        let Some(op) = self.table.get_mut(tid) else { return };
        op.take_back(part);
        if let Some(error) = op.failed.take() {
            self.finish(hub, tid, Err(error));
        } else {
            self.send(now, hub, tid);
        }
    }

    /// Opens connections again whose time has come, for those that wait.
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

    /// Sends what was held back out of caution that is over.
    pub(super) fn relax(&mut self, now: Time, hub: &mut Hub<T>) {
        for osd in 0..self.sessions.len() {
            if self.sessions[osd].as_deref_mut().is_some_and(|session| session.relax(now)) {
                self.send_all(now, hub, osd as i32);
            }
        }
    }

    /// Closes the connections that were not used for long and that nobody waits for.
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

    /// Forgets the session with an OSD; what was sent on it is void.
    pub(super) fn drop_session(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        let session =
            usize::try_from(osd).ok().and_then(|at| self.sessions.get_mut(at)).and_then(Option::take);
        if let Some(conn) = session.and_then(|session| session.conn) {
            self.void(conn);
            if let Some(ended) = hub.close(conn) {
                self.bury(now, hub, ended);
            }
        }
    }
}
