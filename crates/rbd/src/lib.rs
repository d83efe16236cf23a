//! RBD images without I/O: what an image is beyond its objects, as state machines on top of the client of objects.
//!
//! Sources: ceph `src/librbd/`, `src/cls/rbd/`, `doc/dev/rbd-diff.rst`, `doc/dev/rbd-export.rst`.
#![forbid(unsafe_code)]
