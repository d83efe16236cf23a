//! The static program in a root without any other file, and how fast it is there.

use super::{made, start};
use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Stage};
use crate::interop::disk;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long a server may take until it serves.
const START: Duration = Duration::from_secs(10);

/// The program alone is a cluster and a server of NFS, which the one on the stage uses.
pub(in crate::interop) fn program_alone(stage: &Stage) -> Result<()> {
    let program = made::program(stage)?;
    let root = stage.path("root");
    fs::create_dir(&root)?;
    fs::copy(&program, root.join("onego"))?;
    let in_root = |line: &str| -> Command {
        let mut command = stage.program(Path::new("chroot"), "");
        command.arg(&root).arg("/onego").args(line.split_whitespace());
        command
    };
    let version = crate::sh::text(&mut in_root("--version"))?;
    ensure!(version.starts_with("onego "), "`onego --version` says {version}");
    disk::make(&stage.path("disk.raw"), 1)?;

    let line = format!("cluster start --listen {ADDRESS}:3300 --conf-dir /");
    let mut cluster = Daemon::spawn("cluster", in_root(&line), &stage.path("cluster.log"))?;
    let conf = root.join("ceph.conf");
    cluster.wait_until("its ceph.conf", START, || conf.exists())?;
    stage.onego("-c root/ceph.conf rbd import disk.raw rbd/disk")?;
    stage.onego("-c root/ceph.conf rbd export rbd/disk back.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;

    let line = format!("nfs serve --mem --listen {ADDRESS} --allow {ADDRESS}/32");
    let mut nfs = Daemon::spawn("nfs", in_root(&line), &stage.path("nfs.log"))?;
    let log = stage.path("nfs.log");
    nfs.wait_until("its word", START, || fs::read_to_string(&log).is_ok_and(|said| said.contains("ready:")))?;
    stage.onego(&format!("nfs cp disk.raw nfs://{ADDRESS}/export/disk.raw"))?;
    stage.onego(&format!("nfs cp nfs://{ADDRESS}/export/disk.raw again.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("again.raw"))?;
    start::check(&program).context("the program is slow to start")
}
