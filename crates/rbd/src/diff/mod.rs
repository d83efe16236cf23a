//! What changed of an image between two snapshots, or between a snapshot and the image as it is.
//!
//! There are two ways to know: each object says what its clones have in common ([`object_runs`]), or the object maps of the
//! snapshots say which objects were written ([`FastDiff`]). Both give whole objects where a caller wants no more.
//!
//! Sources: ceph `src/librados/snap_set_diff.cc`, `src/librbd/io/ObjectRequest.cc` (`ObjectListSnapsRequest`),
//! `src/librbd/api/DiffIterate.cc`, `src/librbd/object_map/DiffRequest.cc`.

mod maps;
mod object;
mod ranges;

pub use maps::{FastDiff, ObjectChange};
pub use object::{DiffScope, ObjectRun, object_runs};
pub use ranges::{DiffRange, image_ranges, join_ranges};
