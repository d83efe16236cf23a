//! Differences of an object, from the overlaps of its clones.

use onego_ceph::osdmap::IntervalSet;
use onego_ceph::outputs::{CloneInfo, CloneInfos};
use onego_ceph::types::NOSNAP;
use std::cmp::max;

/// The two ends of a diff, and its granularity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffScope {
    /// Snapshot at the start; 0: nothing.
    pub from: u64,
    /// Snapshot at the end, newer than `from`; [`NOSNAP`]: the current image.
    pub to: u64,
    /// Whether any change of an object counts as a change of all of it.
    pub whole_object: bool,
}

/// Changed bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRun {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether the object has the bytes at the end; otherwise they are zeros there.
    pub exists: bool,
}

/// Returns the changed runs of an object of at most `object_size` bytes, in order. An object that never existed has no
/// clones, so it has no runs.
pub fn object_runs(object: &CloneInfos, scope: DiffScope, object_size: u64) -> Vec<ObjectRun> {
    let Changed { mut bytes, size, exists, is_unknown } = Changed::between(object, scope.from, scope.to);
    if is_unknown || (scope.whole_object && !bytes.is_empty()) {
        return vec![ObjectRun { offset: 0, length: object_size, exists }];
    }
    // Bytes cut off the object's end are zeros, even where they were written before.
    let size_before = if scope.from > 0 { Changed::between(object, 0, scope.from).size } else { 0 };
    let mut zeros = IntervalSet::default();
    zeros.insert(size, size_before.saturating_sub(size));
    bytes.subtract(&zeros);
    if !exists {
        zeros.union(&std::mem::take(&mut bytes));
    }
    let runs = |bytes: &IntervalSet, exists| {
        let runs: Vec<_> =
            bytes.iter().map(|(offset, length)| ObjectRun { offset, length, exists }).collect();
        runs
    };
    let mut all = [runs(&bytes, true), runs(&zeros, false)].concat();
    all.sort_unstable_by_key(|run| run.offset);
    all
}

#[derive(Debug, Default)]
struct Changed {
    bytes: IntervalSet,
    /// Size of the object at the end, in bytes.
    size: u64,
    exists: bool,
    /// The clones do not tell which bytes differ.
    is_unknown: bool,
}

impl Changed {
    /// Walks the clones from the oldest on, and collects the bytes that each does not share with the next.
    fn between(object: &CloneInfos, from: u64, to: u64) -> Self {
        let mut bytes = IntervalSet::default();
        let mut size_at_start = None;
        let mut clones = object.clones.iter().peekable();
        while let Some(clone) = clones.next() {
            let Some((first, last)) = lifetime(clone, object.seq) else {
                return Self { is_unknown: true, ..Self::default() };
            };
            if last < from {
                continue;
            }
            let start = *size_at_start.get_or_insert_with(|| {
                if first <= from {
                    return clone.size;
                }
                bytes.insert(0, clone.size);
                0
            });
            if to < first {
                break;
            }
            if to <= last {
                return Self { bytes, size: clone.size, exists: true, is_unknown: false };
            }
            let Some(next) = clones.peek() else { break };
            add_difference(&mut bytes, clone, next.size, start);
        }
        // The object does not exist at the end, whatever existed in between.
        bytes = IntervalSet::default();
        bytes.insert(0, size_at_start.unwrap_or(0));
        Self { bytes, ..Self::default() }
    }
}

/// Returns the oldest and the newest snapshot that show a clone. `None`: its list of snapshots is empty.
fn lifetime(clone: &CloneInfo, seq: u64) -> Option<(u64, u64)> {
    if clone.id == NOSNAP {
        return Some((seq.saturating_add(1), NOSNAP));
    }
    Some((*clone.snaps.first()?, *clone.snaps.last()?))
}

/// Adds the bytes that a clone does not share with the next one, of `next` bytes. `start` is the object's size at the start.
fn add_difference(bytes: &mut IntervalSet, clone: &CloneInfo, next: u64, start: u64) {
    let end = if next >= clone.size {
        next
    } else if clone.size <= start {
        clone.size
    } else {
        // Bytes added since the start and cut off again did not exist at the start either.
        let end = max(next, start);
        bytes.remove(end, clone.size - end);
        end
    };
    let mut difference = IntervalSet::default();
    difference.insert(0, end);
    clone.overlap.iter().for_each(|(offset, length)| _ = difference.remove(*offset, *length));
    difference.iter().for_each(|(offset, length)| bytes.insert(offset, length));
}
