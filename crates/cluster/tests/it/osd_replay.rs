//! What Ceph's own programs asked a real OSD is asked again, and must be answered alike.
//!
//! `data/osd-16.2.15.bin` was recorded on the wire between `rbd`, `rados` and fio of Ceph 16.2.15 and its memstore OSD,
//! on a pool that was empty. It is a sequence of records: a kind (1: a client introduces itself, 2: a request, 3: a
//! reply, 4: a notification), the connection, the time, the transaction id, the version and the lengths of front and
//! data, then front and data.

use onego_buf::List;
use onego_ceph::messages::{OpResult, OsdOp, OsdOpReply, Payload, WatchEvent, WatchNotify};
use onego_ceph::ops::Op;
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::types::EntityName;
use onego_cluster::osd::{Config, CopySources, Osd, RequestContext, Rights, SessionId, UserId};
use onego_msgr::addr::AddrVec;
use onego_msgr::encoding::Decode;
use onego_wire::{Reader, Time};
use std::collections::{BTreeMap, VecDeque};

const RECORDING: &[u8] = include_bytes!("../data/osd-16.2.15.bin");

struct Record<'a> {
    kind: u8,
    session: SessionId,
    time: Time,
    tid: u64,
    version: u16,
    front: &'a [u8],
    data: List,
}

impl<'a> Record<'a> {
    fn read(r: &mut Reader<'a>) -> Self {
        let (kind, session) = (r.u8("kind").unwrap(), SessionId(r.u32("session").unwrap().into()));
        let (time, tid) = (Time::from_nanos(r.u64("time").unwrap()), r.u64("tid").unwrap());
        let version = r.u16("version").unwrap();
        let (front, data) = (r.u32("front").unwrap() as usize, r.u32("data").unwrap() as usize);
        let front = r.take(front, "front").unwrap();
        let data = r.take(data, "data").unwrap().to_vec().into();
        Self { kind, session, time, tid, version, front, data }
    }
}

/// Which request was answered, for the reader of a failure and for what cannot be the same.
struct Asked {
    what: String,
    ops: Vec<Op>,
    reply: OsdOpReply,
}

struct Replay {
    osd: Osd,
    map: OsdMap,
    asked: BTreeMap<(SessionId, u64), Asked>,
    events: BTreeMap<SessionId, VecDeque<WatchNotify>>,
    /// Notifications: the recorded OSD's number and ours.
    notify_ids: BTreeMap<u64, u64>,
    replies: usize,
    differences: Vec<String>,
}

impl Replay {
    fn new() -> Self {
        let pool = Pool { pg_num: 8, pgp_num: 8, ..Pool::default() };
        let map = OsdMap { epoch: 20, pools: BTreeMap::from([(6, pool)]), ..OsdMap::default() };
        Self {
            osd: Osd::new(Config::default()),
            map,
            asked: BTreeMap::new(),
            events: BTreeMap::new(),
            notify_ids: BTreeMap::new(),
            replies: 0,
            differences: Vec::new(),
        }
    }

    fn introduce(&mut self, record: &Record<'_>) {
        let mut r = Reader::new(record.front);
        let addrs = AddrVec::decode(&mut r).unwrap();
        onego_msgr::addr::EntityAddr::decode(&mut r).unwrap();
        let id = r.u64("global id").unwrap();
        let addr = *addrs.msgr2().or(addrs.0.first()).unwrap();
        self.osd.session_opened(
            record.session,
            EntityName::client(id),
            UserId(id as u32),
            addr,
            Rights::everything(),
        );
    }

    fn request(&mut self, record: Record<'_>) {
        let Record { session, time, tid, version, front, data, .. } = record;
        let mut request = OsdOp::decode(version, front, data).unwrap();
        for (op, _) in &mut request.ops {
            if let Op::NotifyAck { notify_id, .. } = op {
                // One that was never announced is acknowledged in vain.
                *notify_id = self.notify_ids.get(notify_id).copied().unwrap_or(0);
            }
        }
        let ops: Vec<Op> = request.ops.iter().map(|(op, _)| op.clone()).collect();
        let what = format!("{:?} {ops:?} flags {:x}", request.object, request.flags);
        let (map, copies, room) = (&self.map, &CopySources::NONE, self.osd.reply_bound(&request));
        let cx = RequestContext { now: time, session, tid, map, peers_used: 0, record: 0, copies, room };
        let reply = self.osd.request(&cx, &mut request).expect("it is answered").reply;
        self.asked.insert((session, tid), Asked { what, ops, reply });
        while let Some((session, event)) = self.osd.poll_event(|_| true) {
            self.events.entry(session).or_default().push_back(event);
        }
    }

    fn reply(&mut self, record: Record<'_>) {
        let theirs = OsdOpReply::decode(record.version, record.front, record.data).unwrap();
        let Asked { what, ops, reply: ours } =
            self.asked.remove(&(record.session, record.tid)).expect("it was asked");
        let same = ours.result == theirs.result
            && ours.flags == theirs.flags
            && (&ours.object, ours.pg, ours.attempt) == (&theirs.object, theirs.pg, theirs.attempt)
            && ours.ops.len() == theirs.ops.len()
            && ours
                .ops
                .iter()
                .zip(&theirs.ops)
                .zip(&ops)
                .all(|((ours, theirs), op)| is_same(ours, theirs, op));
        if !same {
            self.differences.push(format!("{what}\n  gives {}\n  not   {}", show(&ours), show(&theirs)));
        }
        self.replies += 1;
    }

    fn notification(&mut self, record: Record<'_>) {
        let theirs = WatchNotify::decode(record.version, record.front, record.data).unwrap();
        let queue = self.events.entry(record.session).or_default();
        let found =
            queue.iter().position(|event| event.event == theirs.event && event.cookie == theirs.cookie);
        let Some(ours) = found.and_then(|found| queue.remove(found)) else {
            self.differences.push(format!("{theirs:?} is missing"));
            return;
        };
        if theirs.event == WatchEvent::Notify {
            self.notify_ids.insert(theirs.notify_id, ours.notify_id);
        }
        if (ours.result, ours.notifier, &ours.payload) != (theirs.result, theirs.notifier, &theirs.payload) {
            self.differences.push(format!("{ours:?}\n  not {theirs:?}"));
        }
    }
}

fn show(reply: &OsdOpReply) -> String {
    let ops = reply.ops.iter().map(|op| format!("{} {:02x?}", op.result, op.output.to_vec()));
    format!("{} flags {:x} {:?}", reply.result, reply.flags, ops.collect::<Vec<_>>())
}

fn is_same(ours: &OpResult, theirs: &OpResult, op: &Op) -> bool {
    let outputs = match op {
        // Clocks differ, and so do the numbers of notifications.
        Op::Call { method, .. } if method.ends_with("_timestamp") => ours.output.len() == theirs.output.len(),
        Op::Notify { .. } => ours.output.len() == theirs.output.len(),
        // A memstore does not know where its objects have holes.
        Op::SparseRead { .. } => spread(&ours.output) == spread(&theirs.output),
        _ => ours.output == theirs.output,
    };
    outputs && (ours.code, ours.result) == (theirs.code, theirs.result)
}

/// The output of a sparse read with zeros in its holes, without those at the end.
fn spread(output: &List) -> Vec<u8> {
    if output.is_empty() {
        return Vec::new();
    }
    let output = output.to_vec();
    let mut r = Reader::new(&output);
    let runs: Vec<(u64, u64)> = Vec::decode(&mut r).unwrap();
    let mut data = Reader::new(r.blob("data").unwrap());
    let mut bytes = Vec::new();
    for (offset, len) in runs {
        bytes.resize(offset as usize, 0);
        bytes.extend_from_slice(data.take(len as usize, "run").unwrap());
    }
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

#[test]
fn the_programs_of_ceph_are_answered_as_its_own_osd_answers_them() {
    let mut replay = Replay::new();
    let mut r = Reader::new(RECORDING);
    while !r.is_empty() {
        let record = Record::read(&mut r);
        match record.kind {
            1 => replay.introduce(&record),
            2 => replay.request(record),
            3 => replay.reply(record),
            _ => replay.notification(record),
        }
    }
    let differences = replay.differences;
    assert!(
        differences.is_empty(),
        "{} differ: {}",
        differences.len(),
        differences[..differences.len().min(10)].join("\n")
    );
    assert!(replay.replies > 1000, "{} replies", replay.replies);
    assert_eq!(replay.osd.usage().objects, 0, "the programs cleaned up after themselves");
}
