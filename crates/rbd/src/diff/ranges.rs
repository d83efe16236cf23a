//! Maps changed bytes of objects to bytes of the image.

use super::object::ObjectRun;
use onego_ceph::rbd::{Extent, Layout};

/// Changed bytes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffRange {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether there may be data at the end; otherwise the bytes are zeros there.
    pub exists: bool,
}

impl DiffRange {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// Maps an object's runs to ranges of the image, limited to the part of the object that `extent` covers.
pub fn image_ranges(layout: &Layout, extent: &Extent, runs: &[ObjectRun]) -> Vec<DiffRange> {
    let mut ranges = Vec::new();
    for run in runs {
        let start = run.offset.max(extent.offset);
        let end = (run.offset + run.length).min(extent.offset + extent.length);
        let bytes = layout.ranges(extent.object, start, end.saturating_sub(start));
        ranges.extend(bytes.into_iter().map(|range| DiffRange {
            offset: range.start,
            length: range.end - range.start,
            exists: run.exists,
        }));
    }
    ranges
}

/// Sorts ranges, which do not overlap, and joins adjacent ones with the same `exists`.
pub fn join_ranges(mut ranges: Vec<DiffRange>) -> Vec<DiffRange> {
    ranges.sort_unstable_by_key(|range| range.offset);
    ranges.dedup_by(|next, last| {
        let joins = last.end() == next.offset && last.exists == next.exists;
        if joins {
            last.length += next.length;
        }
        joins
    });
    ranges
}
