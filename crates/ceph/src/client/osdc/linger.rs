//! Lingering requests: watches of objects, and notifications until all watchers have answered.
//!
//! Unlike ordinary requests, they are registered again whenever their placement group starts a new interval or the connection
//! to its OSD is lost. Source: ceph `src/osdc/Objecter.cc`, `LingerOp`;
//! `doc/dev/osd_internals/watch_notify.rst`; linux `net/ceph/osd_client.c`, linger_*.

use super::lingers::{Linger, LingerKind, interval};
use super::objects::{Objecter, watch_error};
use super::table::Owner;
use crate::client::config::OsdConfig;
use crate::client::error::{Error, errno};
use crate::client::hub::Hub;
use crate::client::request::{Event, Notified, OpReply, Outcome, Request, WatchId, WatchTarget};
use crate::messages::{WatchEvent, WatchNotify};
use crate::ops::{Op as Operation, WatchOp, flag};
use onego_buf::List;
use onego_msgr::Message;
use onego_wire::{Reader, Time};
use std::time::Duration;

/// Maximum number of watches and notifications: with two requests each they must leave room in the table.
const MAX_LINGERS: usize = 4096;

/// Table size up to which acknowledgements and unwatches are accepted. The rest is reserved for the lingers themselves.
const MAX_TABLE: usize = OsdConfig::MAX_OPS + 4 * MAX_LINGERS;
const _: () = assert!(MAX_TABLE + 2 * MAX_LINGERS <= 1 << 16);

/// Default timeout of a notification in seconds (`client_notify_timeout`).
const NOTIFY_TIMEOUT: u32 = 10;

impl<T> Objecter<T> {
    pub(crate) fn watch(&mut self, now: Time, hub: &mut Hub<T>, target: WatchTarget, ticket: T) -> WatchId {
        let what = LingerKind::Watch { timeout: self.config.watch_timeout };
        self.linger(now, hub, target, what, None, ticket)
    }

    /// Notifies the watchers of an object, and waits up to `timeout` seconds for their answers.
    pub(crate) fn notify(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        target: WatchTarget,
        payload: List,
        timeout: Option<u32>,
        ticket: T,
    ) {
        let timeout = timeout.unwrap_or(NOTIFY_TIMEOUT);
        let patience = self.config.request_timeout.map(|wait| wait + Duration::from_secs(timeout.into()));
        let what = LingerKind::Notify { payload, timeout, notify_id: None };
        self.linger(now, hub, target, what, patience.map(|patience| now + patience), ticket);
    }

    fn linger(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        target: WatchTarget,
        what: LingerKind,
        deadline: Option<Time>,
        ticket: T,
    ) -> WatchId {
        self.lingers.last += 1;
        let id = WatchId(self.lingers.last);
        let refused = if self.closed {
            Some(Error::Closed)
        } else if self.lingers.by_id.len() >= MAX_LINGERS {
            Some(Error::Busy { what: "watches and notifications", bound: MAX_LINGERS as u64 })
        } else {
            None
        };
        if let Some(error) = refused {
            hub.complete(ticket, Err(error), None);
            return id;
        }
        let linger = Linger {
            target,
            what,
            ticket: Some(ticket),
            committed: false,
            asked: now,
            confirmed: None,
            lost: false,
            generation: 0,
            request: None,
            ping: None,
            interval: None,
            moved: false,
            deadline,
        };
        self.lingers.by_id.insert(id, linger);
        self.register(now, hub, id);
        id
    }

    /// Sends the registration of a watch or notification, and forgets earlier requests of it.
    fn register(&mut self, now: Time, hub: &mut Hub<T>, id: WatchId) {
        let Some(linger) = self.lingers.by_id.get_mut(&id) else { return };
        linger.moved = false;
        linger.interval = self.targets.map().and_then(|map| interval(map, &linger.target));
        let stale = [linger.request.take(), linger.ping.take()];
        if linger.lost {
            return;
        }
        let cookie = id.0;
        let (op, owner, flags) = match &mut linger.what {
            LingerKind::Watch { timeout } => {
                let (op, generation) = if linger.committed {
                    linger.generation += 1;
                    (WatchOp::Reconnect, linger.generation)
                } else {
                    (WatchOp::Watch, 0)
                };
                let watch = Operation::Watch { cookie, op, generation, timeout: *timeout };
                // It needs no space: the removal of an image must not wait until a full cluster has some.
                (watch, Owner::Register(id), flag::WRITE | flag::FULL_TRY)
            }
            LingerKind::Notify { payload, timeout, notify_id } => {
                *notify_id = None;
                let notify = Operation::Notify { cookie, timeout: *timeout, payload: payload.clone() };
                (notify, Owner::Notify(id), flag::READ)
            }
        };
        let target = linger.target.clone();
        for tid in stale.into_iter().flatten() {
            self.table.current(tid).map(|tid| self.table.remove(tid));
        }
        let tid = self.send_linger(now, hub, target, op, owner, flags);
        if let Some(linger) = self.lingers.by_id.get_mut(&id) {
            (linger.request, linger.asked) = (Some(tid), now);
        }
    }

    fn send_linger(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        target: WatchTarget,
        op: Operation,
        owner: Owner<T>,
        flags: u32,
    ) -> u64 {
        let request = Request::one(target.pool, target.object, op).in_namespace(&target.namespace);
        let tid = self.insert(now, request, flags | flag::ON_DISK | flag::KNOWN_REDIRECT, owner, 0);
        self.resolve_and_send(now, hub, tid);
        tid
    }

    pub(crate) fn unwatch(&mut self, now: Time, hub: &mut Hub<T>, id: WatchId, ticket: T) {
        if self.table.len() >= MAX_TABLE {
            let busy = Error::Busy { what: "requests in flight", bound: MAX_TABLE as u64 };
            return hub.complete(ticket, Err(busy), None);
        }
        let Some(linger) = self.forget(id) else {
            return hub.complete(ticket, Err(Error::Invalid("there is no such watch")), None);
        };
        if let Some(ticket) = linger.ticket {
            hub.complete(ticket, Err(Error::Cancelled), None);
        }
        let op = Operation::Watch { cookie: id.0, op: WatchOp::Unwatch, generation: 0, timeout: 0 };
        // It needs no space, like a watch.
        let flags = flag::WRITE | flag::FULL_TRY;
        self.send_linger(now, hub, linger.target, op, Owner::Unwatch(ticket), flags);
    }

    /// Answers a notification. Errors are ignored: the notifier waits no longer than its timeout.
    pub(crate) fn acknowledge(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        id: WatchId,
        notify_id: u64,
        reply: List,
    ) {
        let Some(linger) = self.lingers.by_id.get(&id) else { return };
        if self.table.len() >= MAX_TABLE {
            tracing::warn!("dropped an acknowledgement: too many requests are in flight");
            return;
        }
        let op = Operation::NotifyAck { notify_id, cookie: id.0, reply };
        let target = linger.target.clone();
        self.send_linger(now, hub, target, op, Owner::Nobody, flag::READ);
    }

    fn forget(&mut self, id: WatchId) -> Option<Linger<T>> {
        let linger = self.lingers.by_id.remove(&id)?;
        for tid in [linger.request, linger.ping].into_iter().flatten() {
            self.table.current(tid).map(|tid| self.table.remove(tid));
        }
        Some(linger)
    }

    /// Returns the last time at which a watch was known to be established; `None` if it is lost or unknown.
    pub(crate) fn confirmed(&self, id: WatchId) -> Option<Time> {
        self.lingers.by_id.get(&id).filter(|linger| !linger.lost)?.confirmed
    }

    /// Handles the end of a request without a waiting caller.
    pub(super) fn linger_finished(
        &mut self,
        hub: &mut Hub<T>,
        owner: Owner<T>,
        outcome: Result<Outcome, Error>,
    ) {
        let reply = outcome.and_then(|outcome| match outcome {
            Outcome::Reply(reply) => reply.ok(),
            _ => Err(Error::Mismatch("it is of another kind")),
        });
        match owner {
            Owner::Register(id) => self.registered(hub, id, reply),
            Owner::Notify(id) => self.notify_sent(hub, id, reply),
            Owner::Ping(id) => {
                if let Some(linger) = self.lingers.by_id.get_mut(&id) {
                    linger.ping = None;
                    linger.confirmed = if reply.is_ok() { Some(linger.asked) } else { linger.confirmed };
                }
                if let Err(error) = reply {
                    self.watch_lost(hub, id, &error);
                }
            }
            Owner::Unwatch(ticket) => hub.complete(ticket, reply.map(|_| Outcome::Unwatched), None),
            Owner::Nobody | Owner::Caller(_) => {}
        }
    }

    fn registered(&mut self, hub: &mut Hub<T>, id: WatchId, reply: Result<OpReply, Error>) {
        let Some(linger) = self.lingers.by_id.get_mut(&id) else { return };
        linger.request = None;
        match reply {
            Ok(_) => {
                linger.committed = true;
                linger.confirmed = Some(linger.asked);
                if let Some(ticket) = linger.ticket.take() {
                    hub.complete(ticket, Ok(Outcome::Watching(id)), None);
                }
            }
            Err(error) if linger.committed => self.watch_lost(hub, id, &error),
            Err(error) => {
                if let Some(ticket) = self.forget(id).and_then(|linger| linger.ticket) {
                    hub.complete(ticket, Err(error), None);
                }
            }
        }
    }

    fn notify_sent(&mut self, hub: &mut Hub<T>, id: WatchId, reply: Result<OpReply, Error>) {
        let Some(linger) = self.lingers.by_id.get_mut(&id) else { return };
        linger.request = None;
        match reply {
            Ok(reply) => {
                if let LingerKind::Notify { notify_id, .. } = &mut linger.what
                    && let Some(op) = reply.ops.first()
                {
                    *notify_id = Reader::new(&op.output.to_segment()).u64("notify id").ok();
                }
            }
            Err(error) => self.end_notify(hub, id, Err(error)),
        }
    }

    fn end_notify(&mut self, hub: &mut Hub<T>, id: WatchId, result: Result<Notified, Error>) {
        if let Some(ticket) = self.forget(id).and_then(|linger| linger.ticket) {
            hub.complete(ticket, result.map(Outcome::Notified), None);
        }
    }

    pub(super) fn cancel_notifies(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        let of_them = |linger: &Linger<T>| {
            matches!(linger.what, LingerKind::Notify { .. }) && linger.ticket.as_ref().is_some_and(unwanted)
        };
        let ids: Vec<WatchId> =
            self.lingers.by_id.iter().filter(|(_, linger)| of_them(linger)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.end_notify(hub, id, Err(Error::Cancelled)));
    }

    fn watch_lost(&mut self, hub: &mut Hub<T>, id: WatchId, error: &Error) {
        let Some(linger) = self.lingers.by_id.get_mut(&id) else { return };
        if !std::mem::replace(&mut linger.lost, true) {
            hub.tell(Event::WatchLost { watch: id, error: watch_error(error.errno()) });
        }
    }

    pub(super) fn watch_notify(&mut self, hub: &mut Hub<T>, message: &mut Message) -> Result<(), Error> {
        let data = std::mem::take(&mut message.data);
        let notice: WatchNotify = message.decode()?;
        let id = WatchId(notice.cookie);
        let Some(linger) = self.lingers.by_id.get(&id) else { return Ok(()) };
        match (notice.event, &linger.what) {
            (WatchEvent::Disconnect, LingerKind::Watch { .. }) => {
                self.watch_lost(hub, id, &Error::Refused { errno: errno::ENOTCONN });
            }
            (WatchEvent::Notify, LingerKind::Watch { .. }) => hub.tell(Event::Notify {
                watch: id,
                notify_id: notice.notify_id,
                notifier: notice.notifier,
                payload: notice.payload.into(),
            }),
            // The end of an earlier attempt does not count; the reply with the id may arrive after this message.
            (WatchEvent::NotifyComplete, LingerKind::Notify { notify_id, .. })
                if notify_id.is_none_or(|known| known == notice.notify_id) =>
            {
                let bytes = if data.is_empty() { notice.payload } else { data.to_vec() };
                let result = Notified::decode(&bytes).map_err(Error::BadReply);
                self.end_notify(hub, id, result);
            }
            _ => {}
        }
        Ok(())
    }

    /// Marks the lingers whose placement groups have started a new interval.
    pub(super) fn update_linger_intervals(&mut self, skipped: bool) {
        let Some(map) = self.targets.map() else { return };
        for linger in self.lingers.by_id.values_mut() {
            let now = interval(map, &linger.target);
            linger.moved |= skipped || now != linger.interval;
            linger.interval = now;
        }
    }

    pub(super) fn renew_moved(&mut self, now: Time, hub: &mut Hub<T>) {
        self.renew(now, hub, |linger| linger.moved);
    }

    pub(super) fn renew_on(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        self.renew(now, hub, |linger| linger.osd() == osd);
    }

    fn renew(&mut self, now: Time, hub: &mut Hub<T>, which: impl Fn(&Linger<T>) -> bool) {
        let ids: Vec<WatchId> =
            self.lingers.by_id.iter().filter(|(_, linger)| which(linger)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.register(now, hub, id));
    }

    /// Sends pings for the watches, and fails notifications that have timed out.
    pub(super) fn tend_lingers(&mut self, now: Time, hub: &mut Hub<T>) {
        let late = |linger: &Linger<T>| linger.deadline.is_some_and(|deadline| deadline <= now);
        let expired: Vec<WatchId> =
            self.lingers.by_id.iter().filter(|(_, linger)| late(linger)).map(|(id, _)| *id).collect();
        for id in expired {
            let request = self.lingers.by_id.get(&id).and_then(|linger| self.table.get(linger.request?));
            let waiting = request.map(|op| Box::new(self.explain(now, op)));
            let after = self.config.request_timeout.unwrap_or_default();
            self.end_notify(hub, id, Err(Error::Timeout { after, waiting }));
        }
        if self.targets.reads_paused() {
            return;
        }
        let idle = |linger: &Linger<T>| {
            linger.committed && !linger.lost && linger.request.is_none() && linger.ping.is_none()
        };
        let ids: Vec<WatchId> =
            self.lingers.by_id.iter().filter(|(_, linger)| idle(linger)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(linger) = self.lingers.by_id.get(&id) else { continue };
            let (target, generation) = (linger.target.clone(), linger.generation);
            let op = Operation::Watch { cookie: id.0, op: WatchOp::Ping, generation, timeout: 0 };
            // As a read, so that it goes out while writes are paused: the watch would time out meanwhile.
            let tid = self.send_linger(now, hub, target, op, Owner::Ping(id), flag::READ);
            if let Some(linger) = self.lingers.by_id.get_mut(&id) {
                (linger.ping, linger.asked) = (Some(tid), now);
            }
        }
    }

    pub(super) fn close_lingers(&mut self, hub: &mut Hub<T>) {
        for (_, linger) in std::mem::take(&mut self.lingers.by_id) {
            if let Some(ticket) = linger.ticket {
                hub.complete(ticket, Err(Error::Closed), None);
            }
        }
    }
}
