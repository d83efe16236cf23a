//! Bounds on the outputs of a request, known before anything of it is carried out.

use super::admit::meta_growth;
use super::class;
use super::daemon::Osd;
use super::execute::MAX_OMAP_BYTES;
use super::request::MAX_LISTED;
use super::store::clones::Shown;
use super::store::extent::MAX_OBJECT_SIZE;
use super::store::identity;
use super::store::object::State;
use onego_ceph::messages::{MAX_NAME_LEN, MAX_NAMESPACE_LEN, OsdOp};
use onego_ceph::ops::{ChecksumKind, MAX_WRITE, Op};

/// Most bytes of outputs in one reply: the largest object and half of one. The operations of one small request may read the
/// same bytes again and again.
pub(crate) const MAX_REPLY: usize = 192 << 20;

/// Reads up to this length count as they are, without a look at the object.
const SHORT_READ: u64 = 4 << 20;

/// Output of a method that writes: a name, a number or an id.
const WRITE_OUTPUT: u64 = 1 << 10;

/// Output of a method that reads, besides what the object has.
const READ_OUTPUT: u64 = 4 << 10;

/// Bytes that a method returns for one byte of the object at most. An entry of a queue takes 10 bytes or more there, and is
/// returned with up to 60 bytes of lengths and markers.
const CALL_FACTOR: u64 = 8;

/// Bytes of a watcher in a list, of a clone, and of an extent.
const WATCHER: u64 = 128;
const CLONE: u64 = 64;
const EXTENT: u64 = 16;

/// Bytes of an object in a listing.
const LISTED: u64 = (2 * MAX_NAME_LEN + MAX_NAMESPACE_LEN + 12) as u64;

/// Upper bounds of what an object has at any time while a request is carried out on it.
#[derive(Default)]
struct Most {
    size: u64,
    /// Attributes, map and header.
    meta: u64,
    extents: u64,
    clones: u64,
    watchers: u64,
}

impl Most {
    fn add(&mut self, state: &State) {
        self.size = self.size.max(state.size);
        self.meta = self.meta.max(state.meta().bytes());
        self.extents = self.extents.max(state.extents());
    }

    /// Counts what an operation adds.
    fn grow(&mut self, op: &Op) {
        match op {
            Op::Write { offset, data } => self.size = self.size.max(offset.saturating_add(data.len() as u64)),
            Op::WriteFull { data } => self.size = self.size.max(data.len() as u64),
            Op::WriteSame { offset, length, .. } => self.size = self.size.max(offset.saturating_add(*length)),
            Op::Append { data } => self.size += data.len() as u64,
            Op::Truncate { size } => self.size = self.size.max(*size),
            Op::TmapPut { input } | Op::TmapUpdate { input } => self.size += input.len() as u64,
            Op::Call { input, .. } => self.size += meta_growth(op).max(input.len() as u64),
            // The other object may have anything.
            Op::CopyFrom(_) => (self.size, self.meta) = (MAX_OBJECT_SIZE, MAX_REPLY as u64),
            _ => {}
        }
        self.meta += meta_growth(op);
        self.extents += 2;
        // No object is larger, and what may be longer than a reply has no other bound than that.
        self.size = self.size.min(MAX_OBJECT_SIZE);
        self.meta = self.meta.min(MAX_REPLY as u64);
    }

    fn read(&self, offset: u64, length: u64) -> u64 {
        let length = if length == 0 { self.size } else { length };
        length.min(self.size.saturating_sub(offset))
    }

    fn output(&self, op: &Op) -> u64 {
        match op {
            Op::Read { offset, length } => self.read(*offset, *length),
            Op::SparseRead { offset, length } => self.read(*offset, *length) + EXTENT * (self.extents + 1),
            Op::MapExt { .. } => EXTENT * (self.extents + 1),
            Op::Stat => 16,
            Op::Checksum { kind, offset, length, chunk, .. } => {
                let wide = ChecksumKind::from_wire(*kind).is_some_and(ChecksumKind::is_wide);
                let bytes = self.read(*offset, *length);
                let sums = if *chunk == 0 { 1 } else { bytes.div_ceil(u64::from(*chunk)) };
                4 + sums * if wide { 8 } else { 4 }
            }
            Op::TmapGet => self.size,
            Op::GetXattr { .. } | Op::GetXattrs | Op::OmapGetHeader | Op::OmapGetValsByKeys { .. } => {
                4 + self.meta
            }
            Op::OmapGetKeys { .. } | Op::OmapGetVals { .. } => {
                9 + self.meta.min(MAX_OMAP_BYTES as u64 + MAX_WRITE)
            }
            Op::Call { class, method, input } => match class::find(class, method) {
                Some(method) if method.writes => WRITE_OUTPUT,
                Some(_) => CALL_FACTOR * (self.size + self.meta + input.len() as u64) + READ_OUTPUT,
                None => 0,
            },
            Op::Notify { .. } => 8,
            Op::ListWatchers => 64 + WATCHER * self.watchers,
            Op::ListSnaps => 64 + self.clones,
            _ => 0,
        }
    }
}

impl Osd {
    /// Returns an upper bound of the bytes that the operations of a request return, at most 192 MiB.
    pub fn reply_bound(&self, request: &OsdOp) -> usize {
        let short = |op: &Op| match op {
            Op::Read { length, .. } if (1..=SHORT_READ).contains(length) => Some(*length),
            Op::Write { .. } | Op::WriteFull { .. } | Op::SetAllocHint { .. } => Some(0),
            _ => None,
        };
        let short = request.ops.iter().map(|(op, _)| short(op)).sum::<Option<u64>>();
        let bytes = short.filter(|bytes| *bytes <= SHORT_READ).unwrap_or_else(|| self.outputs(request));
        usize::try_from(bytes).map_or(MAX_REPLY, |bytes| bytes.min(MAX_REPLY))
    }

    fn outputs(&self, request: &OsdOp) -> u64 {
        let mut most = Most::default();
        if let Some(id) = self.store.find(&identity(request)) {
            let head = &self.store.object(id).state;
            most.add(head);
            let rolled_back = request.ops.iter().filter_map(|(op, _)| match op {
                Op::Rollback { snap } => Some(*snap),
                _ => None,
            });
            for snap in rolled_back.chain([request.snap]) {
                if let Shown::Clone(clone) = head.at_snapshot(snap) {
                    most.add(&clone.state);
                }
            }
            if request.ops.iter().any(|(op, _)| matches!(op, Op::ListSnaps)) {
                most.clones = head
                    .clones()
                    .map(|clone| {
                        let (overlaps, snaps) = (clone.overlap.count() as u64, clone.snaps.len() as u64);
                        CLONE + EXTENT * overlaps + 8 * snaps
                    })
                    .sum();
            }
            if request.ops.iter().any(|(op, _)| matches!(op, Op::ListWatchers)) {
                most.watchers = self.watches.count_of(id);
            }
        }
        for (op, _) in request.ops.iter().filter(|(op, _)| op.writes() || matches!(op, Op::Call { .. })) {
            most.grow(op);
        }
        let objects = self.groups.get(&request.pg.pg).map_or(0, |group| group.contents.objects);
        let output = |op: &Op| match op {
            Op::PgNls { count, .. } | Op::PgNlsFilter { count, .. } => {
                LISTED * (*count).min(MAX_LISTED).min(objects).saturating_add(2)
            }
            op => most.output(op),
        };
        request.ops.iter().fold(0, |sum: u64, (op, _)| sum.saturating_add(output(op)))
    }
}
