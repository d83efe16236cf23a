//! Devices that we export, and programs that use them.

pub(super) mod blkio;
pub(super) mod devices;
pub(super) mod kernel_nbd;
pub(super) mod nbd;
pub(super) mod root;
pub(super) mod tls;
pub(super) mod ublk;
pub(super) mod vhost_user;

use super::disk;
use crate::cluster::Stage;
use anyhow::Result;
use std::fs::File;

/// Bytes of the devices.
const SIZE: u64 = 256 << 20;

/// Makes what is written to devices, of their size: some clients take only sizes that match.
fn make_disk(stage: &Stage) -> Result<()> {
    disk::make(&stage.path("disk.raw"), 3)?;
    File::options().write(true).open(stage.path("disk.raw"))?.set_len(SIZE).map_err(Into::into)
}

/// Runs a line of a client, from the Debian release that is tested.
fn run(stage: &Stage, line: &str) -> Result<String> {
    stage.ceph(line)
}
