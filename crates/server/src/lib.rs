//! An embedded Ceph cluster.
#![forbid(unsafe_code)]

pub mod osd;
