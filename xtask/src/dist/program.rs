//! The static program.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C library is linked in, so the program runs on any Linux.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Most bytes of the program.
const MAX_SIZE: u64 = 12 << 20;

/// Builds the program, and checks that it is small and needs nothing else.
pub(super) fn build(workspace: &Workspace) -> Result<PathBuf> {
    if !sh::have("musl-gcc") {
        sh::step("installing musl-tools");
        sh::run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", "musl-tools"]))?;
    }
    sh::run(Command::new("rustup").args(["target", "add", TARGET]))?;
    sh::step("building the static program");
    let program = build_in(workspace, &workspace.target_directory)?;
    let size = fs::metadata(&program)?.len();
    ensure!(size <= MAX_SIZE, "{} has {size} bytes: at most {MAX_SIZE} are wanted", program.display());
    let headers = sh::text(Command::new("readelf").args(["--wide", "--program-headers"]).arg(&program))?;
    ensure!(!headers.contains("INTERP"), "{} needs shared libraries", program.display());
    Ok(program)
}

/// Builds the program once more, in another folder, and compares.
pub(super) fn build_again(workspace: &Workspace, first: &Path) -> Result<()> {
    sh::step("building it once more");
    let second = build_in(workspace, &workspace.target_directory.join("dist-again"))?;
    let same = fs::read(first)? == fs::read(&second)?;
    ensure!(same, "{} and {} differ", first.display(), second.display());
    Ok(())
}

fn build_in(workspace: &Workspace, target: &Path) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("there is no home directory")?;
    // Where it was built is nobody's business, and would make two builds differ.
    let flags = format!(
        "--remap-path-prefix={}=/onego --remap-path-prefix={}=/cargo",
        workspace.workspace_root.display(),
        home.display()
    );
    let mut command = workspace.cargo();
    command.args(["build", "--quiet", "--locked", "--profile", "dist", "--package", "onego-cli"]);
    command.args(["--target", TARGET, "--target-dir"]).arg(target).env("RUSTFLAGS", flags);
    sh::run(&mut command)?;
    Ok(target.join(TARGET).join("dist/onego"))
}
