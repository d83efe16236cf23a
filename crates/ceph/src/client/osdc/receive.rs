//! Messages from OSDs: replies and backoffs.

use super::objects::Objecter;
use super::reply::{self, OsdReply};
use super::session::{OsdSession, contains, object_of};
use super::table::Owner;
use crate::client::error::{Error, errno};
use crate::client::hub::Hub;
use crate::client::request::{OpReply, Outcome};
use crate::messages::{Backoff, BackoffOp, MapUpdate, Redirect, kind};
use crate::ops::flag;
use onego_buf::SegmentMut;
use onego_msgr::{Header, Message, Placer};
use onego_wire::{ConnId, Time};
use std::sync::Arc;

/// Maximum number of redirects of a request. Ceph's OSDs redirect once, from one pool to another; Objecter has no limit, and
/// would loop forever between two that redirect to each other.
const MAX_REDIRECTS: u32 = 8;

pub(crate) struct Places<'a, T> {
    pub(crate) objects: &'a mut Objecter<T>,
    pub(crate) conn: ConnId,
}

impl<T> Placer for Places<'_, T> {
    fn place(&mut self, header: &Header, _front: &[u8], data_len: usize) -> Option<SegmentMut> {
        if header.kind == kind::OSD_OP_REPLY {
            self.objects.place(self.conn, header.tid, data_len)
        } else {
            None
        }
    }
}

impl<T> Objecter<T> {
    /// Returns the buffer for a reply's payload, if its request has a free one. The reply to an abandoned attempt on the
    /// same connection may get it too: the final reply overwrites its bytes.
    fn place(&mut self, conn: ConnId, tid: u64, len: usize) -> Option<SegmentMut> {
        let op = self.table.get_mut(tid)?;
        if op.sent_on != Some(conn) || op.landing {
            return None;
        }
        let buffer = op.buffer.as_mut().filter(|buffer| buffer.len() >= len)?;
        let part = buffer.split_to(len);
        op.landing = true;
        Some(part)
    }

    /// Handles a message from an OSD. Fails if the peer violates the protocol: the connection is then to be closed.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        osd: i32,
        conn: ConnId,
        message: &mut Message,
    ) -> Result<(), Error> {
        if self.session_on(osd, conn).is_none() {
            return Ok(());
        }
        self.meter.tick(now);
        match message.header.kind {
            kind::OSD_OP_REPLY => self.reply(now, hub, conn, message),
            kind::OSD_MAP => self.take_maps(now, hub, &message.decode::<MapUpdate>()?),
            kind::OSD_BACKOFF => self.backoff(now, hub, osd, conn, message.decode()?)?,
            kind::COMMAND_REPLY => self.tell_reply(hub, conn, message),
            kind::WATCH_NOTIFY => self.watch_notify(hub, message)?,
            other => tracing::trace!(kind = other, osd, "ignored an OSD's message"),
        }
        if self.session_on(osd, conn).is_some_and(OsdSession::heard) {
            self.send_all(now, hub, osd);
        }
        Ok(())
    }

    #[inline]
    fn reply(&mut self, now: Time, hub: &mut Hub<T>, conn: ConnId, message: &mut Message) {
        let tid = message.header.tid;
        let Some(op) = self.table.get_mut(tid) else {
            tracing::debug!(tid, "a reply matches no request");
            return;
        };
        let placed = message.placed.take().map(|part| {
            let len = part.len();
            op.take_back(part);
            len
        });
        if let Some(error) = op.failed.take_if(|_| !op.landing) {
            return self.finish(hub, tid, Err(error));
        }
        if op.sent_on != Some(conn) {
            // An abandoned attempt: the next one may have waited for the buffer.
            return self.send(now, hub, tid);
        }
        let data = std::mem::take(&mut message.data);
        let reply = match reply::decode(&message.header, &message.front, data, placed) {
            Ok(reply) => reply,
            Err(error) => return self.fail(hub, tid, Error::BadReply(error)),
        };
        // -1: the OSD does not report it. All with msgr2 do.
        if reply.attempt >= 0 && reply.attempt != op.attempts - 1 {
            tracing::debug!(tid, attempt = reply.attempt, "a reply to an earlier attempt");
            return;
        }
        if reply.epoch > self.epoch {
            self.wish_newer();
        }
        self.take_reply(now, hub, tid, reply, placed);
    }

    #[inline]
    fn take_reply(&mut self, now: Time, hub: &mut Hub<T>, tid: u64, reply: OsdReply, placed: Option<usize>) {
        let Some(op) = self.table.get_mut(tid) else { return };
        if let Some(redirect) = reply.redirect {
            return self.redirect(now, hub, tid, *redirect);
        }
        if reply.result == errno::EAGAIN {
            // From a replica that lacks the object, or does not have it yet.
            return self.retry_with_new_tid(now, hub, tid);
        }
        let OsdReply { result, mut ops, version, user_version, .. } = reply;
        if ops.len() != op.message.ops.len() {
            return self.fail(hub, tid, Error::Mismatch("it has another number of operations"));
        }
        let mut filled = placed.unwrap_or(0);
        if placed.is_none()
            && let (Some(buffer), Some(read)) = (&mut op.buffer, ops.first_mut())
        {
            if read.output.len() > buffer.len() {
                return self.fail(hub, tid, Error::Mismatch("it has more bytes than requested"));
            }
            filled = std::mem::take(&mut read.output).copy_to(buffer);
        }
        let reply = OpReply { result, version, user_version, ops, filled };
        self.finish(hub, tid, Ok(Outcome::Reply(reply)));
    }

    fn redirect(&mut self, now: Time, hub: &mut Hub<T>, tid: u64, redirect: Redirect) {
        let Some(op) = self.table.get_mut(tid) else { return };
        op.redirects += 1;
        if op.redirects > MAX_REDIRECTS {
            return self.fail(hub, tid, Error::Mismatch("it redirects the request too often"));
        }
        let Redirect { locator, object } = redirect;
        let from = std::mem::replace(&mut op.pool, locator.pool);
        if matches!(op.owner, Owner::Caller(_)) {
            self.meter.redirect(from, locator.pool, self.targets.map().map(Arc::as_ref));
        }
        op.message.locator = locator;
        if !object.is_empty() {
            op.message.object = object;
        }
        op.message.flags |= flag::REDIRECTED | flag::IGNORE_OVERLAY | flag::IGNORE_CACHE;
        op.hashed = false;
        op.sent_on = None;
        self.resolve_and_send(now, hub, tid);
    }

    fn backoff(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        osd: i32,
        conn: ConnId,
        backoff: Backoff,
    ) -> Result<(), Error> {
        let Some(session) = self.session_on(osd, conn) else { return Ok(()) };
        match backoff.op {
            BackoffOp::Block => {
                // With the epoch of the message, so that the OSD can tell whether the group was split since.
                hub.send(conn, 0, &Backoff { op: BackoffOp::AckBlock, ..backoff.clone() });
                session.backoffs.block(backoff)
            }
            BackoffOp::Unblock => {
                session.backoffs.unblock(backoff.id);
                // By the range of this message: the OSD may have split the group.
                let Backoff { pg, begin, end, .. } = backoff;
                let freed = self.table.ordered(|op| {
                    op.osd == osd && op.message.pg == pg && contains(&begin, &end, &object_of(&op.message))
                });
                for tid in freed {
                    if let Some(op) = self.table.get_mut(tid) {
                        op.sent_on = None;
                    }
                    self.send(now, hub, tid);
                }
                Ok(())
            }
            BackoffOp::AckBlock => Err(Error::Mismatch("an OSD acknowledges a backoff")),
        }
    }
}
