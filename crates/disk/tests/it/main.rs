//! Integration tests of `onego-disk`.

mod containers;
mod disks;
