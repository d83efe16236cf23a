//! tcmu-runner's handler of images, in a guest: the kernel of the machine may not have what it serves disks to.

use super::library;
use crate::cluster::{Embedded, Stage};
use crate::guest::{Guest, TCMU};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::process::Command;

/// What is done in the guest, after the lines that write the configuration.
const SCRIPT: &str = concat!(
    include_str!("../../guest/files.sh"),
    include_str!("../../guest/verify.sh"),
    include_str!("tcmu.sh")
);

/// What the script says of each part that works.
const PARTS: &[&str] = &["load", "file system", "restart", "removal"];

/// An image is a SCSI disk of the guest's kernel, whose commands tcmu-runner carries out on our library.
pub(in crate::interop) fn disk(stage: &Stage) -> Result<()> {
    library::prepare(stage)?;
    let _cluster = Embedded::start(stage, "")?;
    stage.onego("-c ceph.conf rbd create rbd/disk --size 64M")?;
    let guest = Guest::prepare(stage, &TCMU)?;
    let library = stage.path("onego/lib/librados.so.2");
    let programs = ["tcmu-runner", "depmod", "fio", "mke2fs", &*library.to_string_lossy()];
    let conf = fs::read_to_string(stage.path("ceph.conf"))?;
    let said = guest.run(stage, &format!("cat > /tmp/ceph.conf <<END\n{conf}\nEND\n{SCRIPT}"), &programs)?;
    for part in PARTS {
        let works = said.lines().any(|line| line == format!("works: {part}"));
        ensure!(works, "the guest does not say that this works: {part}\n{said}");
    }
    let sum = said.lines().find_map(|line| line.strip_prefix("sum: ")).context("the guest says no sum")?;
    stage.onego("-c ceph.conf rbd export rbd/disk disk.raw --no-progress")?;
    let ours = sh::text(Command::new("sha256sum").arg(stage.path("disk.raw")))?;
    ensure!(ours.split_whitespace().next() == Some(sum), "the guest's disk is {sum}, the image {ours}");
    Ok(())
}
