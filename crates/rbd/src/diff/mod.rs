//! Differences of an image between two snapshots, or between a snapshot and the current image.
//!
//! There are two sources: the overlaps of each object's clones ([`object_runs`]), and the object maps of the snapshots, which
//! record the objects that were written ([`FastDiff`]). Both can report whole objects.
//!
//! Sources: ceph `src/librados/snap_set_diff.cc`, `src/librbd/io/ObjectRequest.cc` (`ObjectListSnapsRequest`),
//! `src/librbd/api/DiffIterate.cc`, `src/librbd/object_map/DiffRequest.cc`.

mod maps;
mod object;
mod ranges;

pub use maps::{FastDiff, ObjectChange};
pub use object::{DiffScope, ObjectRun, object_runs};
pub use ranges::{DiffRange, image_ranges, join_ranges};
