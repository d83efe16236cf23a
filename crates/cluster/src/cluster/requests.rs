//! Requests of clients to OSDs: which are carried out, by whom, and what else has to happen.
//!
//! Source for what an OSD does with a request by the epoch of its sender: ceph
//! `doc/dev/rados-client-protocol.rst`, "Resends"; `src/osd/PG.cc` (`can_discard_op`), `src/osd/OSD.cc`
//! (`maybe_share_map`).

use super::connections::{ClusterConnections, Service};
use super::daemons::Daemons;
use super::notes::{Durability, Notes};
use crate::groups::Group;
use crate::journal::{Counted, Entry, Held};
use crate::osd::{CopySources, Osd, Replicas, RequestContext, Transaction, bounds, identity, may_write};
use onego_ceph::messages::{Backoff, BackoffOp, OsdOp, kind};
use onego_ceph::ops::{flag, respects_full};
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::Message;
use onego_wire::{ConnId, DecodeError, Decoded, Time};

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

    /// A request. What comes by too old a map is dropped: its sender will find out that it has to send it again.
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
        let mut op: OsdOp = if is_cut {
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
        if op.epoch < newest {
            self.share_map(now, conn, op.epoch, connections);
        }
        let map = self.mon.osdmap();
        let pg = op.pg.pg;
        let (Some(pool), Some(group)) = (map.pools.get(&pg.pool), self.groups.get(pg)) else { return Ok(()) };
        // A client that writes to a pool by a map in which it was not full yet is going to find out and to wait. What it sent
        // already is not done in part: one write of several to an object could fit where the one before did not.
        let writes = !is_cut && may_write(&op.ops);
        let flags = op.flags | if writes { flag::WRITE } else { 0 };
        let full_since = if respects_full(flags) { self.groups.full_since(pg.pool) } else { 0 };
        let since = group.since.max(pool.last_force_op_resend).max(full_since);
        if op.epoch < since || !may_serve(group, osd, flags) {
            tracing::debug!(tid, epoch = op.epoch, "a request by an old map is dropped");
            return Ok(());
        }
        let Some(client) = connections.get(conn) else { return Ok(()) };
        let Some(session) = client.session else { return Ok(()) };
        if client.backoffs.drops(pg) {
            return Ok(());
        }
        if !group.active {
            let block = client.backoffs.block(pg, pg, bounds(pg, pool.pg_num), newest);
            connections.send_payload(now, conn, 0, &block);
            return Ok(());
        }
        let copies = match CopySources::collect(&op, map, |source| self.primary(source)) {
            Ok(copies) => copies,
            Err(source) => {
                let block = client.backoffs.block(pg, source, bounds(pg, pool.pg_num), newest);
                connections.send_payload(now, conn, 0, &block);
                return Ok(());
            }
        };
        let peers = group.acting.iter().filter(|peer| **peer != osd);
        let peers_used = peers.map(|peer| self.osds[*peer as usize].osd.used()).max();
        let others = group.others(osd);
        let replicas = (writes && !others.is_empty())
            .then(|| Replicas::let_go(&mut self.osds, osd, &others, pg, &identity(&op)))
            .flatten();
        let record = self.notes.as_ref().map_or(0, Notes::next);
        let peers_used = peers_used.unwrap_or(0);
        let cx = RequestContext { now, session, tid, map, peers_used, record, copies: &copies };
        let mut answer = match is_cut {
            true => Some(Osd::refuse_too_large(&cx, &mut op)),
            false => self.osds[osd as usize].osd.request(&cx, &mut op),
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
                self.hold(durability, conn, Held::Reply(tid, reply, counted), connections);
            }
        }
        self.send_notifications(now, connections);
        let is_fuller = |group: &Group| self.is_fuller(group.acting.iter().chain(&group.targets).copied());
        if writes && self.groups.get(pg).is_some_and(is_fuller) {
            self.report_fuller(now, connections);
        }
        Ok(())
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

    /// Tells a client what has changed since the map it has, once.
    fn share_map(&mut self, now: Time, conn: ConnId, has: Epoch, connections: &mut ClusterConnections) {
        let Some(client) = connections.get(conn) else { return };
        let known = has.max(client.told);
        if let Some(update) = self.mon.maps().update_from(known + 1) {
            client.told = update.newest;
            // A map that may be lost must not be sent: another would take its number.
            let hold = |update| Held::Map(Box::new(update));
            if let Some(update) = self.or_hold(Durability::NewestMap, conn, update, hold, connections) {
                connections.send_payload(now, conn, 0, &update);
            }
        }
    }
}

/// May an OSD carry out a request with these flags, of which that for writes is true? Reads may go to any that serves the
/// group, if they say so.
fn may_serve(group: &Group, osd: i32, flags: u32) -> bool {
    let balanced = flags & (flag::BALANCE_READS | flag::LOCALIZE_READS) != 0 && flags & flag::WRITE == 0;
    group.primary == osd || (balanced && group.acting.contains(&osd))
}
