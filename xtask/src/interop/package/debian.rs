//! The package for Debian, on systems with little more than a service manager.

use super::made;
use crate::cluster::{ADDRESS, Stage, mirror};
use crate::{guest, sh};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs, uses and removes the package on a copy of a system.
const SCRIPT: &str = include_str!("debian.sh");

/// What the smallest system gets beside that: who verifies units, and a program that one of them runs.
const PACKAGES: &str = "kmod,systemd";

/// Units that are verified, each for something by name.
const UNITS: &str =
    "onego-cluster@kept onego-export@rbd-disk onego-map onego-map@rbd-disk onego-nfs@srv-data";

pub(in crate::interop) fn on_bullseye(stage: &Stage) -> Result<()> {
    // Its service manager verifies units only where it manages.
    on(stage, "bullseye", "")
}

pub(in crate::interop) fn on_bookworm(stage: &Stage) -> Result<()> {
    on(stage, "bookworm", UNITS)
}

pub(in crate::interop) fn on_trixie(stage: &Stage) -> Result<()> {
    on(stage, "trixie", UNITS)
}

fn on(stage: &Stage, suite: &str, units: &str) -> Result<()> {
    let (system, files) = (system(stage, suite)?, made::files(stage)?);
    fs::write(stage.path("script"), SCRIPT)?;
    let line = format!("script {} {} {ADDRESS} {units}", system.display(), files.package.display());
    sh::text(&mut stage.program(Path::new("sh"), &line)).map(drop)
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
