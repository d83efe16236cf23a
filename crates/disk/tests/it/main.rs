//! Integration tests of `onego-disk`.

mod disks;
