//! Monitors and OSDs of the scripted cluster.

use super::{Fake, Health, Node};
use onego_buf::List;
use onego_ceph::messages::{
    Backoff, BackoffOp, CommandReply, GetVersion, GetVersionReply, MonCommand, MonMapMessage, ObjectName,
    OpResult, OsdOp, OsdOpReply, Payload, Redirect, Statfs, StatfsReply, Subscribe, kind,
};
use onego_ceph::ops::{Op, WatchOp, flag};
use onego_ceph::types::{Epoch, HObject};
use onego_msgr::Message;
use onego_msgr::encoding::Encode;
use onego_wire::ConnId;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Mon {
    pub(crate) health: Health,
    pub(crate) commands: Vec<String>,
    pub(crate) mute: bool,
    /// Connections that wait for the OSD map: first epoch, and whether once.
    waiting: Vec<(ConnId, Epoch, bool)>,
    pub(crate) subscriptions: Vec<(Epoch, bool)>,
}

impl Mon {
    pub(crate) fn new() -> Self {
        Self {
            health: Health::Up,
            commands: Vec::new(),
            mute: false,
            waiting: Vec::new(),
            subscriptions: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) conn: ConnId,
    pub(crate) tid: u64,
    pub(crate) op: OsdOp,
}

pub(crate) struct Osd {
    pub(crate) health: Health,
    pub(crate) hold: bool,
    pub(crate) held: Vec<Held>,
    /// Received requests: transaction, attempt, object.
    pub(crate) seen: Vec<(u64, i32, String)>,
    pub(crate) acknowledged: Vec<u64>,
    /// A connection with a request to this object ends immediately.
    pub(crate) poison: Option<ObjectName>,
    /// Scripted replies, the next one last.
    pub(crate) answers: Vec<OsdOpReply>,
    /// Watches: cookie and generation of the last registration, and pings.
    pub(crate) watches: BTreeMap<u64, (WatchOp, u32)>,
    pub(crate) pings: usize,
    pub(crate) notify_acks: Vec<(u64, u64, Vec<u8>)>,
}

impl Osd {
    pub(crate) fn new() -> Self {
        Self {
            health: Health::Up,
            hold: false,
            held: Vec::new(),
            seen: Vec::new(),
            acknowledged: Vec::new(),
            poison: None,
            answers: Vec::new(),
            watches: BTreeMap::new(),
            pings: 0,
            notify_acks: Vec::new(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<(i64, ObjectName), Vec<u8>>,
    /// Writes in the order in which they were applied.
    pub(crate) writes: Vec<(ObjectName, Vec<u8>)>,
    /// Applied changes by transaction: resent ones are not applied again.
    applied: BTreeSet<u64>,
}

impl Store {
    fn apply(&mut self, tid: u64, request: &OsdOp) -> OsdOpReply {
        let again = request.ops.iter().any(|(op, _)| op.writes()) && !self.applied.insert(tid);
        let key = (request.pg.pg.pool, request.object.clone());
        let mut reply = OsdOpReply {
            object: request.object.clone(),
            pg: request.pg.pg,
            flags: request.flags.into(),
            epoch: request.epoch,
            attempt: request.attempt,
            ..OsdOpReply::default()
        };
        for (op, _) in &request.ops {
            let (mut result, mut output) = (0, List::new());
            match op {
                Op::Write { offset, data } if !again => {
                    self.writes.push((request.object.clone(), data.to_vec()));
                    let (object, offset) = (self.objects.entry(key.clone()).or_default(), *offset as usize);
                    object.resize(object.len().max(offset + data.len()), 0);
                    object[offset..offset + data.len()].copy_from_slice(&data.to_vec());
                }
                Op::Append { data } if !again => {
                    self.writes.push((request.object.clone(), data.to_vec()));
                    self.objects.entry(key.clone()).or_default().extend(data.to_vec());
                }
                Op::Read { offset, length } => match self.objects.get(&key) {
                    Some(object) => {
                        let start = object.len().min(*offset as usize);
                        let end = object.len().min((offset + length) as usize);
                        output = object[start..end].to_vec().into();
                    }
                    None => result = -2,
                },
                _ => {}
            }
            reply.result = if reply.result == 0 { result } else { reply.result };
            reply.ops.push(OpResult { code: op.code(), result, output });
        }
        reply
    }
}

impl Fake {
    pub(super) fn message(&mut self, node: Node, conn: ConnId, mut message: Message) {
        let tid = message.header.tid;
        match (node, message.header.kind) {
            (Node::Mon(mon), kind::MON_SUBSCRIBE) => self.subscribe(mon, conn, message.decode().unwrap()),
            (Node::Mon(mon), _) if self.mons[mon].mute => {}
            (Node::Mon(_), kind::MON_GET_VERSION) => {
                let GetVersion { handle, what } = message.decode().unwrap();
                assert_eq!(what, "osdmap");
                self.send(conn, 0, &GetVersionReply { handle, newest: self.map.epoch.into(), oldest: 1 });
            }
            (Node::Mon(mon), kind::MON_COMMAND) => {
                let command: MonCommand = message.decode().unwrap();
                assert_eq!(command.fsid, super::FSID);
                self.mons[mon].commands.extend(command.command.clone());
                let output = List::from(b"output".to_vec());
                let reply = CommandReply { output, command: command.command, ..CommandReply::default() };
                self.send(conn, tid, &reply);
            }
            (Node::Mon(_), kind::STATFS) => {
                let Statfs { fsid, .. } = message.decode().unwrap();
                self.send(conn, tid, &StatfsReply { fsid, kb: 100, ..StatfsReply::default() });
            }
            (Node::Osd(osd), kind::OSD_OP) => self.request(osd, conn, tid, message.decode().unwrap()),
            (Node::Osd(osd), kind::OSD_BACKOFF) => {
                let backoff: Backoff = message.decode().unwrap();
                assert_eq!(backoff.op, BackoffOp::AckBlock);
                self.osds[osd].acknowledged.push(backoff.id);
            }
            (node, kind) => panic!("{node:?} does not know messages of kind {kind}"),
        }
    }

    fn subscribe(&mut self, mon: usize, conn: ConnId, subscribe: Subscribe) {
        if subscribe.what.contains_key("monmap") {
            let map = self.monmap.to_bytes();
            self.send(conn, 0, &MonMapMessage { map });
        }
        if let Some(osdmap) = subscribe.what.get("osdmap") {
            let start = osdmap.start as Epoch;
            self.mons[mon].waiting.retain(|(other, ..)| *other != conn);
            self.mons[mon].waiting.push((conn, start, osdmap.once));
            self.mons[mon].subscriptions.push((start, osdmap.once));
            self.tell_subscribers();
        }
    }

    pub(crate) fn tell_subscribers(&mut self) {
        let newest = self.map.epoch;
        for mon in 0..self.mons.len() {
            for (conn, start, once) in std::mem::take(&mut self.mons[mon].waiting) {
                if start > newest {
                    self.mons[mon].waiting.push((conn, start, once));
                    continue;
                }
                let update = self.update_from(start);
                self.send(conn, 0, &update);
                if !once {
                    self.mons[mon].waiting.push((conn, newest + 1, once));
                }
            }
        }
    }

    pub(crate) fn send<P: Payload>(&mut self, conn: ConnId, tid: u64, payload: &P) {
        if let Some(server) = self.server(conn) {
            server.send_payload(tid, payload);
        }
    }

    fn request(&mut self, osd: usize, conn: ConnId, tid: u64, op: OsdOp) {
        let state = &mut self.osds[osd];
        state.seen.push((tid, op.attempt, op.object.to_string()));
        if state.poison.as_ref() == Some(&op.object) {
            return self.break_connection(conn);
        }
        let held = Held { conn, tid, op };
        if self.would_drop(osd, &held.op) {
            return;
        }
        let state = &mut self.osds[osd];
        if state.hold { state.held.push(held) } else { self.answer(osd, &held) }
    }

    pub(crate) fn answer(&mut self, osd: usize, held: &Held) {
        let Held { conn, tid, op } = held;
        let state = &mut self.osds[osd];
        let reply = match state.answers.pop() {
            Some(answer) => OsdOpReply {
                attempt: op.attempt,
                ops: op
                    .ops
                    .iter()
                    .map(|(op, _)| OpResult { code: op.code(), ..OpResult::default() })
                    .collect(),
                ..answer
            },
            None => {
                for (op, _) in &op.ops {
                    match op {
                        Op::Watch { op: WatchOp::Ping, .. } => state.pings += 1,
                        Op::Watch { op: WatchOp::Unwatch, cookie, .. } => drop(state.watches.remove(cookie)),
                        Op::Watch { cookie, op, generation, .. } => {
                            state.watches.insert(*cookie, (*op, *generation));
                        }
                        Op::NotifyAck { notify_id, cookie, reply } => {
                            state.notify_acks.push((*notify_id, *cookie, reply.to_vec()));
                        }
                        _ => {}
                    }
                }
                self.store.apply(*tid, op)
            }
        };
        self.send(*conn, *tid, &reply);
    }

    pub(crate) fn release(&mut self, osd: usize) {
        self.osds[osd].hold = false;
        for held in std::mem::take(&mut self.osds[osd].held) {
            self.answer(osd, &held);
        }
    }

    /// Drops the held requests that real OSDs would drop by the newest map.
    pub(crate) fn drop_misdirected(&mut self) {
        for osd in 0..self.osds.len() {
            let held = std::mem::take(&mut self.osds[osd].held);
            self.osds[osd].held = held.into_iter().filter(|held| !self.would_drop(osd, &held.op)).collect();
        }
    }

    /// Returns whether an OSD drops a request: it is not the primary, or the request was sent before the group's current
    /// interval or its last split (ceph PG.cc, PG::can_discard_op).
    fn would_drop(&self, osd: usize, op: &OsdOp) -> bool {
        let pg = op.pg.pg;
        let since = self.same_primary_since.get(&pg).copied().unwrap_or(0);
        let resend = self.map.pools.get(&pg.pool).map_or(0, |pool| pool.last_force_op_resend);
        let placement = self.map.place(pg);
        let serves = match op.flags & flag::BALANCE_READS {
            0 => placement.acting_primary == osd as i32,
            _ => placement.acting.contains(&(osd as i32)),
        };
        !serves || op.epoch < since.max(resend)
    }

    pub(crate) fn backoff(&mut self, held: &Held, op: BackoffOp, id: u64, begin: HObject, end: HObject) {
        let epoch = self.map.epoch;
        self.send(held.conn, 0, &Backoff { pg: held.op.pg, epoch, op, id, begin, end });
    }

    pub(crate) fn redirection(pool: i64) -> OsdOpReply {
        let locator = onego_ceph::types::ObjectLocator { pool, ..Default::default() };
        OsdOpReply {
            redirect: Some(Redirect { locator, object: ObjectName::default() }),
            ..Default::default()
        }
    }
}
