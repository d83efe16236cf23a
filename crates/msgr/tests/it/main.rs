//! Integration tests of `onego-msgr`.

mod cephx;
mod compressed;
mod exchange;
mod faults;
mod session_world;
mod sessions;
mod support;
mod v1;
mod v1_signatures;
