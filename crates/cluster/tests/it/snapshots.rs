//! Snapshots on a cluster that loses OSDs, and some with all that they have: random changes by seed, beside a model that
//! keeps every state whole.

use crate::support::{MON, Net, Who, request};
use onego_ceph::messages::{OsdOp, OsdOpReply, PoolOp, PoolOpKind, PoolOpReply};
use onego_ceph::ops::{Op, flag};
use onego_ceph::types::{SnapContext, Uuid};
use onego_cluster::{NewPool, OsdSettings, Settings};
use onego_testkit::seeds::Seeds;
use onego_wire::ListenerId;
use std::collections::BTreeMap;
use std::time::Duration;

const OSDS: u16 = 3;

/// Objects; their hashes are all different.
const OBJECTS: usize = 5;

const NOENT: i32 = -2;

/// What an object is; none: it does not exist.
type Plain = Option<Vec<u8>>;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// What a run comes to.
#[derive(Default)]
struct Seen {
    /// Most clones that there were.
    clones: u64,
    /// OSDs that were stopped, and those of them that lost everything.
    stopped: u32,
    wiped: u32,
}

struct Trial {
    net: Net,
    dice: Dice,
    mon: Who,
    /// The connections to OSDs.
    osds: BTreeMap<i32, Who>,
    now: [Plain; OBJECTS],
    /// What the snapshots that exist show, by their ids.
    snaps: BTreeMap<u64, [Plain; OBJECTS]>,
    seq: u64,
    stopped: Option<i32>,
    seen: Seen,
}

fn settings() -> Settings {
    let osds = (0..OSDS).map(|osd| OsdSettings {
        uuid: Uuid([osd as u8 + 8; 16]),
        addrs: format!("v2:127.0.0.1:{}/1000", 6800 + osd).parse().unwrap(),
    });
    let pool = NewPool { size: Some(2), pg_num: 4, ..NewPool::for_images("rbd") };
    Settings { osds: osds.collect(), pools: vec![pool], ..crate::support::settings() }
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut net = Net::with(settings());
        let mon = net.client(MON);
        Self {
            net,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            mon,
            osds: BTreeMap::new(),
            now: Default::default(),
            snaps: BTreeMap::new(),
            seq: 0,
            stopped: None,
            seen: Seen::default(),
        }
    }

    /// The connection to an OSD.
    fn osd(&mut self, osd: i32) -> Option<Who> {
        if let Some(&who) = self.osds.get(&osd)
            && !self.net.is_closed(who)
        {
            return Some(who);
        }
        let who = self.net.try_client(ListenerId(1 + osd as u32))?;
        self.net.run();
        self.osds.insert(osd, who);
        Some(who)
    }

    /// The answer of the OSD that serves the object, once one does.
    fn ask(&mut self, object: usize, change: impl Fn(&mut OsdOp)) -> OsdOpReply {
        let tid = self.net.tid();
        for _ in 0..1000 {
            let mut op = request(&self.net, &format!("object{object}"), []);
            change(&mut op);
            let primary = self.net.machine.osdmap().unwrap().place(op.pg.pg).acting_primary;
            if primary >= 0
                && let Some(who) = self.osd(primary)
            {
                self.net.send(who, tid, &op);
                if let Some((_, reply)) = self.net.receive::<OsdOpReply>(who) {
                    return reply;
                }
            }
            self.net.pass(Duration::from_millis(5));
        }
        panic!("no OSD serves object{object}");
    }

    fn pool_op(&mut self, op: PoolOpKind, snap: u64) -> PoolOpReply {
        let fsid = Uuid([7; 16]);
        self.net.send(self.mon, 3, &PoolOp { fsid, pool: 1, op, snap, name: String::new(), crush_rule: -1 });
        self.net.receive::<PoolOpReply>(self.mon).expect("the monitor answers").1
    }

    fn take_snapshot(&mut self) {
        let id = self.pool_op(PoolOpKind::CreateUnmanagedSnap, 0).output.expect("there is an id");
        self.seq = u64::from_le_bytes(id.try_into().unwrap());
        self.snaps.insert(self.seq, self.now.clone());
    }

    fn remove_snapshot(&mut self, snap: u64) {
        self.snaps.remove(&snap);
        assert_eq!(self.pool_op(PoolOpKind::DeleteUnmanagedSnap, snap).result, 0);
    }

    fn change(&mut self) {
        let object = self.dice.roll(OBJECTS as u64) as usize;
        let (offset, len) = (self.dice.roll(3000), 1 + self.dice.roll(3000));
        let bytes = vec![self.dice.roll(255) as u8 + 1; len as usize];
        let mut plain = self.now[object].clone().unwrap_or_default();
        let snap = self.dice.roll(self.snaps.len().max(1) as u64) as usize;
        let (op, after) = match (self.dice.roll(8), self.snaps.iter().nth(snap)) {
            (0, _) if self.now[object].is_some() => (Op::Delete, None),
            (1, Some((snap, plain))) => (Op::Rollback { snap: *snap }, plain[object].clone()),
            (2, _) => (Op::WriteFull { data: bytes.clone().into() }, Some(bytes)),
            _ => {
                let (start, end) = (offset as usize, (offset + len) as usize);
                plain.resize(plain.len().max(end), 0);
                plain[start..end].copy_from_slice(&bytes);
                (Op::Write { offset, data: bytes.into() }, Some(plain))
            }
        };
        let snap_context = SnapContext { seq: self.seq, snaps: self.snaps.keys().rev().copied().collect() };
        let reply = self.ask(object, |request| {
            request.ops = [(op.clone(), 0)].into_iter().collect();
            request.snap_context.clone_from(&snap_context);
        });
        assert_eq!(reply.result, 0, "{op:?}");
        self.now[object] = after;
    }

    fn stop_or_start(&mut self) {
        let now = self.net.now;
        match self.stopped.take() {
            Some(osd) => self.net.machine.start_osd(now, osd),
            // What others do not have yet is not lost.
            None if !self.net.machine.is_clean() => return,
            None => {
                let osd = self.dice.roll(OSDS.into()) as i32;
                self.net.machine.stop_osd(now, osd);
                self.seen.stopped += 1;
                if self.dice.roll(3) == 0 {
                    self.net.machine.wipe_osd(osd);
                    self.seen.wiped += 1;
                }
                self.stopped = Some(osd);
            }
        }
        self.net.run();
    }

    fn step(&mut self) {
        match self.dice.roll(24) {
            0..3 => self.take_snapshot(),
            3 | 4 if !self.snaps.is_empty() => {
                let at = self.dice.roll(self.snaps.len() as u64) as usize;
                let snap = *self.snaps.keys().nth(at).unwrap();
                self.remove_snapshot(snap);
            }
            5 | 6 => self.stop_or_start(),
            7 | 8 => {
                let time = self.dice.roll(4);
                self.net.pass(Duration::from_millis(time));
            }
            _ => self.change(),
        }
        let clones = self.net.machine.usage().pool(1).clones;
        self.seen.clones = self.seen.clones.max(clones);
    }

    /// What an object is at a snapshot, or is.
    fn read(&mut self, object: usize, snap: Option<u64>) -> Plain {
        let reply = self.ask(object, |request| {
            request.flags = flag::READ;
            request.ops = [(Op::Read { offset: 0, length: 0 }, 0)].into_iter().collect();
            request.snap = snap.unwrap_or(request.snap);
        });
        if reply.result == NOENT {
            return None;
        }
        assert_eq!(reply.result, 0);
        Some(reply.ops[0].output.to_vec())
    }

    fn check(&mut self) {
        for object in 0..OBJECTS {
            assert!(self.read(object, None) == self.now[object], "object{object}");
            for (snap, plain) in self.snaps.clone() {
                assert!(self.read(object, Some(snap)) == plain[object], "object{object} at {snap}");
            }
        }
    }

    /// All OSDs are there, and nothing is left to be done.
    fn settle(&mut self) {
        if let Some(osd) = self.stopped.take() {
            let now = self.net.now;
            self.net.machine.start_osd(now, osd);
        }
        for _ in 0..1000 {
            self.net.pass(Duration::from_millis(2));
            let queue = &self.net.machine.osdmap().unwrap().removed_snaps_queue;
            if queue.is_empty() && self.net.machine.is_clean() {
                return;
            }
        }
        panic!("the OSDs do not come to rest");
    }
}

#[test]
fn snapshots_survive_the_loss_of_osds_and_go_when_they_are_removed() {
    let seeds = Seeds { short: 60, long: 3000 };
    let seen = seeds.each("-p onego-cluster --test it snapshots::", |seed| {
        let mut trial = Trial::new(seed);
        for step in 0..120 {
            trial.step();
            if step % 10 == 0 {
                trial.check();
            }
        }
        trial.settle();
        trial.check();
        // Each OSD has what it should have, also if it serves alone.
        for osd in 0..i32::from(OSDS) {
            let now = trial.net.now;
            trial.net.machine.stop_osd(now, osd);
            trial.check();
            trial.stopped = Some(osd);
            trial.settle();
        }
        for snap in trial.snaps.keys().copied().collect::<Vec<_>>() {
            trial.remove_snapshot(snap);
        }
        trial.settle();
        trial.check();
        let usage = trial.net.machine.usage().pool(1);
        let (objects, bytes) = trial
            .now
            .iter()
            .flatten()
            .fold((0, 0), |(objects, bytes), plain| (objects + 1, bytes + plain.len() as u64));
        assert_eq!((usage.objects, usage.clones, usage.bytes), (objects, 0, bytes));
        trial.seen
    });
    let Some(seen) = seen else { return };
    let sum = |count: fn(&Seen) -> u64| seen.iter().map(count).sum::<u64>();
    let (clones, stopped) = (sum(|seen| seen.clones), sum(|seen| seen.stopped.into()));
    let wiped = sum(|seen| seen.wiped.into());
    assert!(clones > 200 && stopped > 100 && wiped > 30, "{clones} clones, {stopped} stops, {wiped} losses");
}
