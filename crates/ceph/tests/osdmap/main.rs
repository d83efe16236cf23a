//! Maps of OSDs and of monitors, beside Ceph's programs and as clusters have sent them.

mod apply;
mod dump;
mod history;
mod monmap;
mod placement;
mod recorded;
mod support;
