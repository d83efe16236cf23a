//! OSD maps: incremental maps, and maps that clusters have sent.

mod apply;
mod random;
mod recorded;
