//! Requests of clients to OSDs: which are carried out, by whom, and what else has to happen.
//!
//! Source for what an OSD does with a request by the epoch of its sender: ceph
//! `doc/dev/rados-client-protocol.rst`, "Resends"; `src/osd/PG.cc` (`can_discard_op`), `src/osd/OSD.cc`
//! (`maybe_share_map`).

use super::connections::{ClusterConnections, Service};
use super::daemons::Daemons;
use super::notes::{Durability, Notes};
use super::room::Work;
use crate::groups::Group;
use crate::journal::{Counted, Entry, Held};
use crate::osd::{CopySources, Osd, Replicas, RequestContext, Transaction, bounds, identity, may_write};
use onego_ceph::messages::{Backoff, BackoffOp, OsdOp, kind};
use onego_ceph::ops::{Op, flag, respects_full};
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::Message;
use onego_wire::{ConnId, DecodeError, Decoded, Time};

/// A request that came in whole.
#[derive(Debug)]
pub(super) struct Request {
    op: OsdOp,
    tid: u64,
    /// Its payload was too long to be kept: only its front is left.
    is_cut: bool,
    /// Bytes that it brought.
    brought: u64,
}

impl Request {
    /// Memory that its operations take besides what they brought.
    pub(super) fn overhead(&self) -> usize {
        size_of::<Self>() + self.op.ops.len() * size_of::<(Op, u32)>()
    }
}

impl Daemons {
    pub(super) fn osd_message(
        &mut self,
        now: Time,
        osd: i32,
        conn: ConnId,
        message: &mut Message,
        connections: &mut ClusterConnections,
    ) -> Decoded<()> {
        let tid = message.header.tid;
        match message.header.kind {
            kind::OSD_OP => self.request(now, osd, conn, message, connections)?,
            kind::COMMAND => {
                let tell = message.decode()?;
                self.tell_osd(now, osd, (conn, tid), &tell, connections);
            }
            kind::OSD_BACKOFF => {
                let backoff: Backoff = message.decode()?;
                if let Some(client) = connections.get(conn).filter(|_| backoff.op == BackoffOp::AckBlock) {
                    client.backoffs.known(backoff.id);
                }
            }
            // Signs of life.
            other => tracing::debug!(kind = other, "the OSD passes over a message"),
        }
        Ok(())
    }

    /// A request.
    fn request(
        &mut self,
        now: Time,
        osd: i32,
        conn: ConnId,
        message: &mut Message,
        connections: &mut ClusterConnections,
    ) -> Decoded<()> {
        let tid = message.header.tid;
        // What it brought was too long to be kept: nothing is left of it but whom to answer.
        let is_cut = message.discarded > 0;
        let brought = message.data.len() as u64;
        let op: OsdOp = if is_cut {
            OsdOp::decode_without_data(message.header.version, &message.front)?
        } else {
            message.decode()?
        };
        let newest = self.mon.osdmap().epoch;
        if op.epoch > newest {
            // Ceph waits for the map. Here the monitor and the OSD have the same one, so it will never come.
            return Err(DecodeError::OverBound {
                what: "epoch of a request",
                value: op.epoch.into(),
                bound: newest.into(),
            });
        }
        let mut request = Request { op, tid, is_cut, brought };
        if let Some(bound) = self.carry_out(now, osd, conn, &mut request, false, connections) {
            connections.park(now, conn, Work::Request(Box::new(request)), bound, now);
        }
        Ok(())
    }

    /// A request that waited for room for its reply.
    pub(super) fn request_again(
        &mut self,
        now: Time,
        conn: ConnId,
        mut request: Box<Request>,
        since: Time,
        connections: &mut ClusterConnections,
    ) {
        let Some(Service::Osd(osd)) = connections.get(conn).map(|client| client.service) else { return };
        if let Some(bound) = self.carry_out(now, osd, conn, &mut request, true, connections) {
            connections.park(now, conn, Work::Request(request), bound, since);
        }
    }

    /// Carries out a request, or returns the bytes for which it has to wait. What comes by too old a map is dropped: its
    /// sender will find out that it has to send it again.
    fn carry_out(
        &mut self,
        now: Time,
        osd: i32,
        conn: ConnId,
        request: &mut Request,
        is_parked: bool,
        connections: &mut ClusterConnections,
    ) -> Option<usize> {
        let Request { op, tid, is_cut, brought } = request;
        let (tid, is_cut, brought) = (*tid, *is_cut, *brought);
        let newest = self.mon.osdmap().epoch;
        if op.epoch < newest
            && let Some(bound) = self.share_map(now, conn, op.epoch, is_parked, connections)
        {
            return Some(bound);
        }
        let map = self.mon.osdmap();
        let pg = op.pg.pg;
        let (Some(pool), Some(group)) = (map.pools.get(&pg.pool), self.groups.get(pg)) else { return None };
        // A client that writes to a pool by a map in which it was not full yet is going to find out and to wait. What it sent
        // already is not done in part: one write of several to an object could fit where the one before did not.
        let writes = !is_cut && may_write(&op.ops);
        let flags = op.flags | if writes { flag::WRITE } else { 0 };
        let full_since = if respects_full(flags) { self.groups.full_since(pg.pool) } else { 0 };
        let since = group.since.max(pool.last_force_op_resend).max(full_since);
        if op.epoch < since || !may_serve(group, osd, flags) {
            tracing::debug!(tid, epoch = op.epoch, "a request by an old map is dropped");
            return None;
        }
        let client = connections.get(conn)?;
        let session = client.session?;
        if client.backoffs.drops(pg) {
            return None;
        }
        if !group.active {
            let block = client.backoffs.block(pg, pg, bounds(pg, pool.pg_num), newest);
            connections.send_payload(now, conn, 0, &block);
            return None;
        }
        // What is too long is refused, and a request that was done before has a short answer.
        let room = if is_cut { 0 } else { self.osds[osd as usize].osd.reply_bound(op) };
        if !connections.may_reply(conn, room, is_parked) {
            return Some(room);
        }
        let copies = match CopySources::collect(op, map, |source| self.primary(source)) {
            Ok(copies) => copies,
            Err(source) => {
                let client = connections.get(conn)?;
                let block = client.backoffs.block(pg, source, bounds(pg, pool.pg_num), newest);
                connections.send_payload(now, conn, 0, &block);
                return None;
            }
        };
        let peers = group.acting.iter().filter(|peer| **peer != osd);
        let peers_used = peers.map(|peer| self.osds[*peer as usize].osd.used()).max();
        let others = group.others(osd);
        let replicas = (writes && !others.is_empty())
            .then(|| Replicas::let_go(&mut self.osds, osd, &others, pg, &identity(op)))
            .flatten();
        let record = self.notes.as_ref().map_or(0, Notes::next);
        let peers_used = peers_used.unwrap_or(0);
        let cx = RequestContext { now, session, tid, map, peers_used, record, copies: &copies, room };
        let mut answer = match is_cut {
            true => Some(Osd::refuse_too_large(&cx, op)),
            false => self.osds[osd as usize].osd.request(&cx, op),
        };
        let transaction = answer.as_mut().and_then(|answer| answer.transaction.take());
        if let Some(replicas) = replicas {
            replicas.follow(&mut self.osds, transaction.as_deref(), record);
        }
        if let Some(transaction) = transaction {
            self.note_write(osd, &others, transaction);
        }
        if let Some(answer) = &mut answer {
            let counted = Counted {
                since: now,
                pool: pg.pool,
                writes,
                bytes: if writes { brought } else { answer.output_bytes() },
                has_failed: answer.reply.result < 0,
            };
            self.operations.begin(&counted);
            let durability = Durability::Record(answer.depends_on);
            // Nearly all replies are sent from where they lie.
            if self.may_send(durability) {
                self.operations.end(now, &counted);
                connections.send_payload(now, conn, tid, &answer.reply);
            } else {
                let reply = Box::new(std::mem::take(&mut answer.reply));
                self.hold(now, durability, conn, Held::Reply(tid, reply, counted), connections);
            }
        }
        self.send_notifications(now, connections);
        let is_fuller = |group: &Group| self.is_fuller(group.acting.iter().chain(&group.targets).copied());
        if writes && self.groups.get(pg).is_some_and(is_fuller) {
            self.report_fuller(now, connections);
        }
        None
    }

    /// Returns the OSD that serves a group, or the group itself while it is not active.
    fn primary(&self, pg: PgId) -> Result<&Osd, PgId> {
        let group = self.groups.get(pg).filter(|group| group.active).ok_or(pg)?;
        let daemon = usize::try_from(group.primary).ok().and_then(|osd| self.osds.get(osd));
        daemon.map(|daemon| &daemon.osd).ok_or(pg)
    }

    /// The journal has what the OSDs of a group have done before the client is told.
    fn note_write(&mut self, primary: i32, others: &[i32], transaction: Box<Transaction>) {
        if let Some(notes) = &mut self.notes {
            let osds = std::iter::once(primary).chain(others.iter().copied()).collect();
            notes.add(&Entry::Write { osds, transaction });
        }
    }

    pub(super) fn send_notifications(&mut self, now: Time, connections: &mut ClusterConnections) {
        for daemon in &mut self.osds {
            // They are replies like others: none is made while too many wait to be sent.
            while daemon.osd.has_event() && connections.table.has_room_for_replies() {
                let conn_of = |session| self.sessions.get(&session).copied();
                let takes = |session| conn_of(session).is_none_or(|conn| !connections.is_behind(conn));
                let Some((session, event)) = daemon.osd.poll_event(takes) else { break };
                if let Some(conn) = conn_of(session) {
                    connections.send_payload(now, conn, 0, &event);
                }
            }
        }
    }

    /// A connection has sent something, and may take notifications again.
    pub(super) fn sent(&mut self, now: Time, conn: ConnId, connections: &mut ClusterConnections) {
        if self.mon.is_deferred(conn) {
            self.send_map(now, conn, None, connections);
        }
        if self.osds.iter().all(|daemon| daemon.osd.has_no_events()) {
            return;
        }
        let behind = connections.is_behind(conn);
        if let Some(client) = connections.get(conn)
            && let (Service::Osd(osd), Some(session), false) = (client.service, client.session, behind)
        {
            self.osds[osd as usize].osd.resume_events(session);
        }
        self.send_notifications(now, connections);
    }

    /// Tells a client what has changed since the map it has, once. Returns the bytes for which that has to wait, if it does.
    fn share_map(
        &mut self,
        now: Time,
        conn: ConnId,
        has: Epoch,
        is_parked: bool,
        connections: &mut ClusterConnections,
    ) -> Option<usize> {
        let client = connections.get(conn)?;
        let next = has.max(client.told) + 1;
        let bound = self.mon.maps().update_len(next)?;
        if !connections.may_reply(conn, bound, is_parked) {
            return Some(bound);
        }
        // A map that may be lost must not be sent: another would take its number.
        if self.may_send(Durability::NewestMap) {
            let message = self.mon.map_message(next)?;
            connections.send(now, conn, message);
        } else {
            let update = self.mon.maps().update_from(next)?;
            self.hold(now, Durability::NewestMap, conn, Held::Map(Box::new(update)), connections);
        }
        connections.get(conn)?.told = self.mon.osdmap().epoch;
        None
    }
}

/// May an OSD carry out a request with these flags, of which that for writes is true? Reads may go to any that serves the
/// group, if they say so.
fn may_serve(group: &Group, osd: i32, flags: u32) -> bool {
    let balanced = flags & (flag::BALANCE_READS | flag::LOCALIZE_READS) != 0 && flags & flag::WRITE == 0;
    group.primary == osd || (balanced && group.acting.contains(&osd))
}
