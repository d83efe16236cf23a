//! The package for Debian, on systems with little more than a service manager.

use super::{made, peers};
use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Stage, mirror};
use crate::{guest, sh};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Installs, uses and removes the package on a copy of a system.
const SCRIPT: &str = include_str!("debian.sh");

/// What the smallest system gets beside that: who verifies units, and a program that one of them runs.
const PACKAGES: &str = "kmod,systemd";

/// Units that are verified, each for something by name.
const UNITS: &str =
    "onego-cluster@kept onego-export@rbd-disk onego-map onego-map@rbd-disk onego-nfs@srv-data";

/// How long it may take until the servers of an installed package have been used.
const PATIENCE: Duration = Duration::from_secs(300);

pub(in crate::interop) fn on_bullseye(stage: &Stage) -> Result<()> {
    // Its service manager verifies units only where it manages.
    on(stage, "bullseye", "", |_| Ok(Vec::new()))
}

pub(in crate::interop) fn on_bookworm(stage: &Stage) -> Result<()> {
    on(stage, "bookworm", UNITS, peers::kernel)
}

pub(in crate::interop) fn on_trixie(stage: &Stage) -> Result<()> {
    on(stage, "trixie", UNITS, peers::kernel)
}

/// Goes through the life of the package on that release, and has `others` use its servers, who say which files they have left on
/// that of NFS.
fn on(
    stage: &Stage,
    suite: &str,
    units: &str,
    others: impl FnOnce(&Stage) -> Result<Vec<String>>,
) -> Result<()> {
    let (system, files) = (system(stage, suite)?, made::files(stage)?);
    fs::write(stage.path("script"), SCRIPT)?;
    let line = format!("script {} {} {ADDRESS} {units}", system.display(), files.package.display());
    let mut script =
        Daemon::spawn("script", stage.program(Path::new("sh"), &line), &stage.path("script.out"))?;
    let serving = stage.path("serving");
    script.wait_until("its word that it serves", PATIENCE, || serving.exists())?;
    peers::prometheus(stage)?;
    let left = others(stage)?;
    script.check_alive()?;
    fs::write(stage.path("done.new"), left.join("\n"))?;
    fs::rename(stage.path("done.new"), stage.path("done"))?;
    script.wait()
}

/// A system of that release, made once.
fn system(stage: &Stage, suite: &str) -> Result<PathBuf> {
    guest::keep(&stage.cache("bare"), suite, PACKAGES, |folder| {
        sh::step(&format!("making a bare Debian {suite} system (once)"));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "debootstrap", "--variant=minbase"]);
        command.arg(format!("--include={PACKAGES}")).arg(suite).arg(folder).arg(mirror()?);
        sh::text(&mut command).map(drop)
    })
}
