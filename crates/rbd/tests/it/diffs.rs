//! Diffs compared with a model: an object and its bytes at every snapshot.

use onego_ceph::cls::rbd::{ObjectMap, state};
use onego_ceph::outputs::{CloneInfo, CloneInfos};
use onego_ceph::rbd::Layout;
use onego_ceph::types::NOSNAP;
use onego_rbd::diff::{
    DiffRange, DiffScope, FastDiff, ObjectChange, ObjectRun, image_ranges, join_ranges, object_runs,
};
use proptest::prelude::*;

const OBJECT: u64 = 32;

#[derive(Debug, Clone)]
enum ObjectStep {
    Write {
        offset: u64,
        length: u64,
        byte: u8,
    },
    Truncate {
        size: u64,
    },
    Remove,
    Snapshot,
    /// A snapshot is removed, also from the clones.
    Forget {
        snapshot: usize,
    },
}

fn step() -> impl Strategy<Value = ObjectStep> {
    prop_oneof![
        4 => (0..OBJECT, 1..10_u64, 1..u8::MAX).prop_map(|(offset, length, byte)| ObjectStep::Write {
            offset,
            length: length.min(OBJECT - offset),
            byte,
        }),
        1 => (0..OBJECT).prop_map(|size| ObjectStep::Truncate { size }),
        1 => Just(ObjectStep::Remove),
        3 => Just(ObjectStep::Snapshot),
        1 => (0..8_usize).prop_map(|snapshot| ObjectStep::Forget { snapshot }),
    ]
}

#[derive(Default)]
struct Model {
    head: Option<Vec<u8>>,
    /// Oldest first; the newest shares its overlap with the head.
    clones: Vec<CloneInfo>,
    /// Newest snapshot known to a write.
    seq: u64,
    snapshots: Vec<(u64, Option<Vec<u8>>)>,
    made: u64,
}

impl Model {
    /// Preserves the object in a clone for the snapshots since its last change.
    fn before_change(&mut self) {
        let newer: Vec<u64> = self.snapshots.iter().map(|(id, _)| *id).filter(|id| *id > self.seq).collect();
        if let (Some(head), Some(newest)) = (&self.head, newer.last()) {
            let size = head.len() as u64;
            let overlap = if size > 0 { vec![(0, size)] } else { Vec::new() };
            self.clones.push(CloneInfo { id: *newest, snaps: newer.clone(), overlap, size });
        }
        self.seq = self.seq.max(self.made);
    }

    /// Removes these bytes from the overlap of head and newest clone.
    fn unshare(&mut self, start: u64, end: u64) {
        let Some(clone) = self.clones.last_mut() else { return };
        let mut shared = Vec::new();
        for (offset, length) in std::mem::take(&mut clone.overlap) {
            let parts = [(offset, (offset + length).min(start)), (offset.max(end), offset + length)];
            shared
                .extend(parts.into_iter().filter(|(from, to)| from < to).map(|(from, to)| (from, to - from)));
        }
        clone.overlap = shared;
    }

    fn take(&mut self, step: &ObjectStep) {
        match step {
            ObjectStep::Write { offset, length, byte } => {
                self.before_change();
                let end = (offset + length) as usize;
                let head = self.head.get_or_insert_default();
                head.resize(head.len().max(end), 0);
                head[*offset as usize..end].fill(*byte);
                self.unshare(*offset, offset + length);
            }
            ObjectStep::Truncate { size } if self.head.is_some() => {
                self.before_change();
                let head = self.head.get_or_insert_default();
                let before = head.len() as u64;
                head.resize(*size as usize, 0);
                self.unshare(before.min(*size), before.max(*size));
            }
            ObjectStep::Remove if self.head.is_some() => {
                self.before_change();
                self.head = None;
                self.unshare(0, OBJECT);
            }
            ObjectStep::Truncate { .. } | ObjectStep::Remove => {}
            ObjectStep::Snapshot => {
                self.made += 1;
                self.snapshots.push((self.made, self.head.clone()));
            }
            ObjectStep::Forget { snapshot } => self.forget(*snapshot),
        }
    }

    fn forget(&mut self, index: usize) {
        if index >= self.snapshots.len() {
            return;
        }
        let (id, _) = self.snapshots.remove(index);
        let Some(at) = self.clones.iter().position(|clone| clone.snaps.contains(&id)) else { return };
        self.clones[at].snaps.retain(|snap| *snap != id);
        if !self.clones[at].snaps.is_empty() {
            return;
        }
        let gone = self.clones.remove(at);
        // The previous clone shares with the next one the bytes that both shared with the removed one.
        if let Some(before) = at.checked_sub(1).and_then(|before| self.clones.get_mut(before)) {
            before.overlap = intersection(&before.overlap, &gone.overlap);
        }
    }

    fn infos(&self) -> CloneInfos {
        let mut clones = self.clones.clone();
        if let Some(head) = &self.head {
            let size = head.len() as u64;
            clones.push(CloneInfo { id: NOSNAP, snaps: Vec::new(), overlap: Vec::new(), size });
        }
        CloneInfos { clones, seq: self.seq }
    }

    fn at(&self, snap: u64) -> Option<&Vec<u8>> {
        match snap {
            NOSNAP => self.head.as_ref(),
            snap => self.snapshots.iter().find(|(id, _)| *id == snap)?.1.as_ref(),
        }
    }
}

fn intersection(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut both = Vec::new();
    for (start, length) in a {
        for (other, other_length) in b {
            let from = (*start).max(*other);
            let to = (start + length).min(other + other_length);
            if from < to {
                both.push((from, to - from));
            }
        }
    }
    both
}

/// Returns the object's bytes as an image shows them.
fn shown(bytes: Option<&Vec<u8>>) -> Vec<u8> {
    let mut bytes = bytes.cloned().unwrap_or_default();
    bytes.resize(OBJECT as usize, 0);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Applying the changed runs to the bytes at the start yields the bytes at the end.
    #[test]
    fn applying_a_diff_turns_one_snapshot_into_another(steps in prop::collection::vec(step(), 1..30)) {
        let mut model = Model::default();
        steps.iter().for_each(|step| model.take(step));
        let infos = model.infos();
        let mut points: Vec<u64> = model.snapshots.iter().map(|(id, _)| *id).collect();
        points.insert(0, 0);
        points.push(NOSNAP);
        for (index, from) in points.iter().enumerate() {
            for to in &points[index + 1..] {
                let begin = shown(if *from == 0 { None } else { model.at(*from) });
                let end = shown(model.at(*to));
                for whole_object in [false, true] {
                    let scope = DiffScope { from: *from, to: *to, whole_object };
                    let runs = object_runs(&infos, scope, OBJECT);
                    let mut bytes = begin.clone();
                    for run in &runs {
                        let range = run.offset as usize..(run.offset + run.length).min(OBJECT) as usize;
                        if run.exists {
                            bytes[range.clone()].copy_from_slice(&end[range]);
                        } else {
                            prop_assert!(end[range.clone()].iter().all(|byte| *byte == 0), "{scope:?} {runs:?}");
                            bytes[range].fill(0);
                        }
                    }
                    prop_assert_eq!(&bytes, &end, "{:?} of {:?} gives {:?}", scope, &infos, &runs);
                    let in_order = runs.windows(2).all(|two| two[0].offset + two[0].length <= two[1].offset);
                    prop_assert!(in_order, "{scope:?} {runs:?}");
                }
            }
        }
    }
}

#[test]
fn bytes_that_were_not_written_are_not_in_a_diff() {
    let mut model = Model::default();
    let write = |offset, length, byte| ObjectStep::Write { offset, length, byte };
    [write(0, 8, 1), ObjectStep::Snapshot, write(2, 2, 2), ObjectStep::Snapshot]
        .iter()
        .for_each(|step| model.take(step));
    let runs = |from, to| object_runs(&model.infos(), DiffScope { from, to, whole_object: false }, OBJECT);
    let run = |offset, length| vec![ObjectRun { offset, length, exists: true }];
    assert_eq!(runs(0, 1), run(0, 8));
    assert_eq!(runs(1, 2), run(2, 2));
    assert_eq!(runs(2, NOSNAP), []);
    assert_eq!(runs(0, NOSNAP), run(0, 8));
}

#[test]
fn an_object_with_incomplete_clone_information_counts_as_changed() {
    let clone = CloneInfo { id: 3, size: 4, ..CloneInfo::default() };
    let infos = CloneInfos { clones: vec![clone], seq: 3 };
    let runs = object_runs(&infos, DiffScope { from: 0, to: 3, whole_object: false }, OBJECT);
    assert_eq!(runs, [ObjectRun { offset: 0, length: OBJECT, exists: false }]);
}

#[test]
fn the_runs_of_striped_objects_are_in_the_order_of_the_image() {
    let layout = Layout::striped(12, 1024, 2).unwrap();
    let whole = |_| vec![ObjectRun { offset: 0, length: 4096, exists: true }];
    let ranges =
        layout.map(0, 8192).into_iter().flat_map(|extent| image_ranges(&layout, &extent, &whole(())));
    assert_eq!(join_ranges(ranges.collect()), [DiffRange { offset: 0, length: 8192, exists: true }]);
    let extents = layout.map(0, 8192);
    let ranges =
        image_ranges(&layout, &extents[1], &[ObjectRun { offset: 1000, length: 100, exists: false }]);
    let expected =
        [(2024, 24), (3072, 76)].map(|(offset, length)| DiffRange { offset, length, exists: false });
    assert_eq!(join_ranges(ranges), expected);
}

#[test]
fn object_maps_tell_which_objects_were_written() {
    use ObjectChange::{Absent, Removed, Unchanged, Written};
    let map = |states: &[u8]| {
        let mut map = ObjectMap::new(states.len() as u64);
        states.iter().enumerate().for_each(|(object, state)| map.set(object as u64, *state));
        map
    };
    const NO: u8 = state::NONEXISTENT;
    const YES: u8 = state::EXISTS;
    const CLEAN: u8 = state::EXISTS_CLEAN;
    let changes =
        |diff: &FastDiff, objects| (0..objects).map(|object| diff.change(object)).collect::<Vec<_>>();
    let start = map(&[NO, YES, YES, CLEAN, NO, state::PENDING]);
    let middle = map(&[YES, CLEAN, YES, NO, NO, NO]);
    let end = map(&[NO, CLEAN, CLEAN, CLEAN, CLEAN]);
    let diff = FastDiff::from_snapshot(&start, 6).next(&middle, 6, false).next(&end, 5, true);
    assert_eq!(changes(&diff, 6), [Absent, Unchanged, Written, Written, Written, Absent]);
    let diff = FastDiff::from_snapshot(&start, 6).next(&map(&[NO, NO, YES, CLEAN, YES, NO]), 6, true);
    assert_eq!(changes(&diff, 6), [Absent, Removed, Written, Unchanged, Written, Removed]);
    let diff = FastDiff::from_nothing(&end, 5);
    assert_eq!(changes(&diff, 6), [Absent, Written, Written, Written, Written, Absent]);
}
