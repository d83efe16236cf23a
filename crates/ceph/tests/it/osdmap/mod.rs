//! OSD maps: increments, and recorded maps of clusters.

mod apply;
mod random;
mod recorded;
