//! Block devices that `onego map` makes, in a guest whose kernel has the driver ublk.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::{Guest, UBLK};
use anyhow::{Context as _, Result, ensure};

/// What is done in the guest, after the line that says where the monitor is.
const SCRIPT: &str = concat!(
    include_str!("../../guest/files.sh"),
    include_str!("../../guest/verify.sh"),
    include_str!("ublk.sh")
);

/// The programs of the host that the script runs, beside ours.
const PROGRAMS: &[&str] = &["fio", "mke2fs"];

/// What the script says of each part that works.
const PARTS: &[&str] = &["memory", "image", "crash", "restart", "list"];

/// An image of our embedded cluster as a block device of the guest.
pub(crate) fn mapped(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    stage.onego("--conf ceph.conf rbd create rbd/disk --size 128M")?;
    stage.onego("--conf ceph.conf rbd create rbd/other --size 16M")?;
    let guest = Guest::prepare(stage, &UBLK)?;
    let program = stage.onego_program();
    let name = program.file_name().context("a program without a name")?.to_string_lossy();
    let path = program.to_string_lossy();
    let programs: Vec<&str> = PROGRAMS.iter().copied().chain([&*path]).collect();
    let script = format!("MONITOR={ADDRESS}:3300\nONEGO=/host/{name}\n{SCRIPT}");
    let said = guest.run(stage, &script, &programs)?;
    for part in PARTS {
        let works = said.lines().any(|line| line == format!("works: {part}"));
        ensure!(works, "the guest does not say that this works: {part}\n{said}");
    }
    Ok(())
}
