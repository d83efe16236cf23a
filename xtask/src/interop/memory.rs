//! The embedded cluster at the limit of its memory.

use super::disk;
use crate::cluster::{Embedded, Stage};
use anyhow::{Result, ensure};
use std::fs;

/// Data that the cluster may hold, and what its process may need beside: code, buffers of connections, maps.
const LIMIT: u64 = 64 << 20;
const BESIDE: u64 = 64 << 20;

/// Over the limit writes are refused with ENOSPC; what was there before is whole, and room that is made is used.
pub(crate) fn limit(stage: &Stage) -> Result<()> {
    let mut cluster = Embedded::start(stage, "--memory 64M")?;
    stage.ceph("ceph osd pool create small 8")?;
    fs::write(stage.path("early"), disk::Random(3).bytes(8 << 20))?;
    stage.ceph("rados --pool small put early early")?;

    let full = stage.ceph_fails("rados --pool small bench 30 write -b 1048576 -t 4 --no-cleanup")?;
    let said = [full.stdout, full.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(said.contains("No space left on device"), "`rados bench` failed of something else:\n{said}");

    stage.ceph("rados --pool small get early back")?;
    disk::compare(&stage.path("early"), &stage.path("back"))?;
    let refused = stage.ceph_fails("rados --pool small put late early")?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(said.contains("No space left on device"), "`rados put` failed of something else:\n{said}");

    stage.ceph("rados --pool small cleanup --prefix benchmark_data")?;
    stage.ceph("rados --pool small put late early")?;
    stage.ceph("rados --pool small get late back")?;
    disk::compare(&stage.path("early"), &stage.path("back"))?;

    let peak = cluster.server().peak_memory()?;
    ensure!(peak < LIMIT + BESIDE, "the process used {} MiB", peak >> 20);
    cluster.server().check_alive()
}
