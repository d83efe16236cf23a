//! What comes from OSDs: replies, and requests to be left alone.

use super::objects::Objects;
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

/// How often a request may be sent elsewhere. Ceph's OSDs do it once, from one pool to another; Objecter has no bound, and
/// would go round for ever between two that send it to each other.
const MAX_REDIRECTS: u32 = 8;

/// Gives connections the buffers of callers.
pub(crate) struct Places<'a, T> {
    pub(crate) objects: &'a mut Objects<T>,
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

impl<T> Objects<T> {
    /// The buffer for the payload of a reply, if its request has one that is free. A reply to an attempt that was
    /// given up on the same connection may get it too: what it leaves there is overwritten by the one that counts.
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

    /// A message from an OSD. An error is one of the peer: the connection is to be closed.
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
            other => tracing::trace!(kind = other, osd, "an OSD's message is ignored"),
        }
        if self.session_on(osd, conn).is_some_and(OsdSession::heard) {
            self.send_all(now, hub, osd);
        }
        Ok(())
    }

    /// A reply to a request.
    #[inline]
    fn reply(&mut self, now: Time, hub: &mut Hub<T>, conn: ConnId, message: &mut Message) {
        let tid = message.header.tid;
        let Some(op) = self.table.get_mut(tid) else {
            tracing::debug!(tid, "a reply to no request");
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
            // An attempt that was given up: the next one may have waited for the buffer.
            return self.send(now, hub, tid);
        }
        let data = std::mem::take(&mut message.data);
        let reply = match reply::decode(&message.header, &message.front, data, placed) {
            Ok(reply) => reply,
            Err(error) => return self.fail(hub, tid, Error::BadReply(error)),
        };
        // -1: an OSD that does not say. All that speak msgr2 do.
        if reply.attempt >= 0 && reply.attempt != op.attempts - 1 {
            tracing::debug!(tid, attempt = reply.attempt, "a reply to an earlier attempt");
            return;
        }
        if reply.epoch > self.epoch {
            self.wish_newer();
        }
        self.take_reply(now, hub, tid, reply, placed);
    }

    /// The reply to the last attempt.
    #[inline]
    fn take_reply(&mut self, now: Time, hub: &mut Hub<T>, tid: u64, reply: OsdReply, placed: Option<usize>) {
        let Some(op) = self.table.get_mut(tid) else { return };
        if let Some(redirect) = reply.redirect {
            return self.redirect(now, hub, tid, *redirect);
        }
        if reply.result == errno::EAGAIN {
            // Of a replica: it does not have the object, or not yet.
            return self.make_anew(now, hub, tid);
        }
        let OsdReply { result, mut ops, version, user_version, .. } = reply;
        if ops.len() != op.message.ops.len() {
            return self.fail(hub, tid, Error::Mismatch("it is to another number of operations"));
        }
        let mut filled = placed.unwrap_or(0);
        if placed.is_none()
            && let (Some(buffer), Some(read)) = (&mut op.buffer, ops.first_mut())
        {
            if read.output.len() > buffer.len() {
                return self.fail(hub, tid, Error::Mismatch("it has more bytes than were asked for"));
            }
            filled = std::mem::take(&mut read.output).copy_to(buffer);
        }
        let reply = OpReply { result, version, user_version, ops, filled };
        self.finish(hub, tid, Ok(Outcome::Reply(reply)));
    }

    /// The request has to go elsewhere, for good.
    fn redirect(&mut self, now: Time, hub: &mut Hub<T>, tid: u64, redirect: Redirect) {
        let Some(op) = self.table.get_mut(tid) else { return };
        op.redirects += 1;
        if op.redirects > MAX_REDIRECTS {
            return self.fail(hub, tid, Error::Mismatch("it sends the request elsewhere again and again"));
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
        self.launch(now, hub, tid);
    }

    /// The OSD asks to be left alone with some objects, or no longer.
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
                // With the epoch of the question, so that the OSD can tell if the group was split since.
                hub.send(conn, 0, &Backoff { op: BackoffOp::AckBlock, ..backoff.clone() });
                session.backoffs.block(backoff)
            }
            BackoffOp::Unblock => {
                session.backoffs.unblock(backoff.id);
                // By the range of this message: the group may have been split on the OSD.
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
