//! Random changes and snapshots, beside a model that keeps every state whole.

use super::model::Dice;
use super::*;
use crate::osd::codec::{Body, Parts};
use crate::osd::store::object::State;
use crate::osd::{ToTrim, recover};
use onego_buf::Segment;
use onego_ceph::osdmap::IntervalSet;
use onego_testkit::seeds::Seeds;

/// What an object is; none: it does not exist.
type Plain = Option<Vec<u8>>;

/// The object `o` on an OSD, on one that follows it, and in the model.
struct Timeline {
    dice: Dice,
    bench: Bench,
    follower: Osd,
    now: Plain,
    /// What the snapshots that exist show, by their ids.
    snaps: BTreeMap<u64, Plain>,
    seq: u64,
}

impl Timeline {
    fn new(seed: u64) -> Self {
        let config = Config { transactions: true, ..Config::default() };
        Self {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            bench: Bench::with(config.clone()),
            follower: Osd::new(config),
            now: None,
            snaps: BTreeMap::new(),
            seq: 1,
        }
    }

    fn step(&mut self) {
        match self.dice.roll(20) {
            0..3 => {
                self.seq += 1;
                self.snaps.insert(self.seq, self.now.clone());
            }
            3 => self.remove_snapshot(),
            4 => self.trim(),
            _ => self.change(),
        }
    }

    fn remove_snapshot(&mut self) {
        let at = self.dice.roll(self.snaps.len().max(1) as u64) as usize;
        let Some(snap) = self.snaps.keys().nth(at).copied() else { return };
        self.snaps.remove(&snap);
        // To remove one takes a number, too.
        self.seq += 1;
        self.bench.remove_snaps(&[snap]);
        assert_eq!(self.bench.seen(snap), None);
    }

    fn change(&mut self) {
        let (op, expected) = self.random_op();
        let snaps: Vec<u64> = self.snaps.keys().rev().copied().collect();
        let result = self.bench.change_by(self.seq, &snaps, vec![op.clone()]);
        match expected {
            Some(after) => {
                assert_eq!(result, 0, "{op:?}");
                self.now = after;
            }
            None => assert_eq!(result, failed(Errno::NOENT), "{op:?}"),
        }
        if let Some(transaction) = self.bench.transaction.take() {
            self.follower.apply(&transaction, 0);
        }
    }

    /// A change, and what the object is after it; none: it fails.
    fn random_op(&mut self) -> (Op, Option<Plain>) {
        const SIZE: u64 = 40_000;
        let (offset, len) = (self.dice.roll(SIZE), 1 + self.dice.roll(12_000));
        let bytes = vec![self.dice.roll(255) as u8 + 1; len as usize];
        let (start, end) = (offset as usize, (offset + len) as usize);
        let mut plain = self.now.clone().unwrap_or_default();
        let is_there = self.now.is_some();
        match self.dice.roll(10) {
            0..4 => {
                plain.resize(plain.len().max(end), 0);
                plain[start..end].copy_from_slice(&bytes);
                (write(offset, &bytes), Some(Some(plain)))
            }
            4 => (Op::WriteFull { data: list(&bytes) }, Some(Some(bytes))),
            5 => {
                if end >= plain.len() {
                    plain.truncate(start);
                } else {
                    plain[start..end].fill(0);
                }
                (Op::Zero { offset, length: len }, Some(is_there.then_some(plain)))
            }
            6 => {
                plain.resize(start, 0);
                (Op::Truncate { size: offset }, Some(is_there.then_some(plain)))
            }
            7 => (Op::Delete, is_there.then_some(None)),
            _ => {
                let at = self.dice.roll(self.snaps.len().max(1) as u64) as usize;
                match self.snaps.iter().nth(at) {
                    Some((snap, plain)) => (Op::Rollback { snap: *snap }, Some(plain.clone())),
                    None => (Op::Create { exclusive: false }, Some(Some(plain))),
                }
            }
        }
    }

    /// The OSD forgets what was removed, and the map says so.
    fn trim(&mut self) {
        let Some(removed) = self.bench.map.removed_snaps_queue.remove(&POOL) else { return };
        let (pg, name) = Bench::place("o");
        let pool = self.bench.map.pools[&POOL].clone();
        let ToTrim { names, next, .. } =
            self.bench.osd.find_to_trim(pg, &pool, &removed, Default::default(), 10);
        assert!(names.iter().all(|found| *found == name) && next.is_none());
        for name in names {
            let transaction = self.bench.osd.trim(pg, &name, &removed, 7).expect("the object is there");
            self.follower.apply(&transaction, 0);
        }
        let again = self.bench.osd.find_to_trim(pg, &pool, &removed, Default::default(), 10);
        assert!(again.names.is_empty());
    }

    fn check(&mut self) {
        assert_eq!(self.bench.seen(NOSNAP), self.now);
        for (snap, plain) in self.snaps.clone() {
            assert_eq!(self.bench.seen(snap), plain, "at {snap} of {:?}", self.snaps.keys());
        }
        let (pg, _) = Bench::place("o");
        assert_eq!(self.bench.osd.group_contents(pg), self.follower.group_contents(pg));
        let Some(state) = state(&self.bench.osd) else {
            assert_eq!(self.bench.osd.usage().used, 0);
            return;
        };
        check_overlaps(state);
        let infos = self.bench.snaps();
        assert_eq!(
            infos.clones.len(),
            state_of(&self.bench).clones().count() + usize::from(self.now.is_some())
        );
        let own = |size: u64, overlap: &[(u64, u64)]| size - overlap.iter().map(|(_, len)| len).sum::<u64>();
        let bytes: u64 = infos.clones.iter().map(|clone| own(clone.size, &clone.overlap)).sum();
        assert_eq!(self.bench.osd.pool_usage(POOL).bytes, bytes);
    }

    /// OSDs that get the object in other ways have the same.
    fn check_copies(&mut self) {
        let source = &self.bench.osd;
        let mut recovered = Osd::new(Config { transactions: true, ..Config::default() });
        recover::tests::recover_all(&mut recovered, source, 10);
        assert_eq!(recovered.usage(), source.usage());
        let Some(original) = state(source) else {
            assert!(state(&self.follower).is_none() && state(&recovered).is_none());
            return;
        };
        let mut body = Body::default();
        original.encode(&mut body);
        body.payload.segments().for_each(|part| body.front.put(part));
        let bytes = Segment::from(body.front.into_vec());
        let mut parts = Parts::new(&bytes);
        let mut read = State::decode(&mut parts, original.knows_snapshots()).unwrap();
        parts.finish().unwrap();
        for other in [state(&self.follower).unwrap(), state(&recovered).unwrap()] {
            assert!(read.share_if_same(other));
        }
        assert_eq!(self.follower.usage().bytes, source.usage().bytes);
    }
}

fn state(osd: &Osd) -> Option<&State> {
    let (pg, name) = Bench::place("o");
    Some(&osd.store.object(osd.store.find(&name.in_pool(pg.pool))?).state)
}

fn state_of(bench: &Bench) -> &State {
    state(&bench.osd).expect("the object is there")
}

/// What clones say that they share with what is newer, they do.
fn check_overlaps(state: &State) {
    let zeros = Segment::from_static(&[0; 4096]);
    let mut newer = state;
    for clone in state.clones() {
        let mut whole = IntervalSet::default();
        whole.insert(0, clone.state.size.min(newer.size));
        for (offset, len) in clone.overlap.iter() {
            assert!((0..len).all(|at| whole.contains(offset + at)), "an overlap is in both");
            let [ours, theirs] = [&clone.state, newer].map(|state| state.read(offset, len, &zeros).to_vec());
            assert!(ours == theirs);
        }
        newer = &clone.state;
    }
}

#[test]
fn objects_show_at_each_snapshot_what_they_were() {
    let seeds = Seeds { short: 1000, long: 20_000 };
    let clones = seeds.each("-p onego-cluster --lib objects_show_at_each_snapshot", |seed| {
        let mut timeline = Timeline::new(seed);
        for _ in 0..60 {
            timeline.step();
            timeline.check();
        }
        let clones = timeline.bench.osd.pool_usage(POOL).clones;
        timeline.check_copies();
        timeline.snaps.keys().copied().collect::<Vec<_>>().into_iter().for_each(|snap| {
            timeline.snaps.remove(&snap);
            timeline.bench.remove_snaps(&[snap]);
        });
        timeline.trim();
        timeline.check();
        assert_eq!(timeline.bench.osd.usage().objects, u64::from(timeline.now.is_some()));
        clones
    });
    assert!(clones.is_none_or(|clones| clones.iter().sum::<u64>() > 1000), "few clones were made");
}
