//! Integration tests of `onego-ceph`.

mod client;
mod crush;
mod msgr_recorded;
mod osdmap;
