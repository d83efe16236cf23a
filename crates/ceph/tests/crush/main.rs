//! CRUSH maps and where they place, beside Ceph's crushtool.

mod map;
mod placement;
mod support;
