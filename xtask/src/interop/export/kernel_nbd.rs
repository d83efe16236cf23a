//! The kernel's client of NBD: on our server, attached by nbd-client, and by `onego map`.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::{Guest, NBD};
use anyhow::{Context as _, Result, ensure};

/// What is done in the guest, after the lines that say where the monitor is, and the program.
const SCRIPT: &str = concat!(
    include_str!("../../guest/files.sh"),
    include_str!("../../guest/verify.sh"),
    include_str!("kernel_nbd.sh")
);

/// The programs of the host that the script runs, beside ours.
const PROGRAMS: &[&str] = &["fio", "mke2fs", "nbd-client"];

/// What the script says of each part that works.
const PARTS: &[&str] = &["client", "mapped", "crash"];

/// An image of our embedded cluster as a block device of the guest: by several connections to a server on the host, and mapped by
/// a process of the guest.
pub(crate) fn client(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    stage.onego("-c ceph.conf rbd create rbd/disk --size 128M")?;
    let server = Embedded::start_nbd(stage, "-c ceph.conf", "rbd:disk")?;
    let guest = Guest::prepare(stage, &NBD)?;
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
    server.stop()
}
