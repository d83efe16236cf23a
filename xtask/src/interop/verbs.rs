//! Our provider over rdma-core, on the kernel's devices in software: siw, which is iWARP, and rxe, which is RoCE.

use super::load;
use crate::cluster::Stage;
use crate::guest::{Guest, NFSD, NFSD_PROGRAMS, RDMA};
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The kinds of devices.
const DEVICES: [&str; 2] = ["siw", "rxe"];

/// Runs the provider's check with one kind of device after the other. The guest's address is QEMU's.
const SCRIPT: &str = "
export PATH=/bin:/host
failed=0
for device in siw rxe; do
    rdma link add dev0 type $device netdev eth0 || exit
    if check 10.0.2.15 $device; then
        echo \"works: $device\"
    else
        failed=1
        dmesg | grep -iE 'rdma|siw|rxe' | tail -n 8
    fi
    rdma link delete dev0 || exit
done
exit $failed
";

/// Both ends in one guest.
pub(crate) fn with_itself(stage: &Stage) -> Result<()> {
    let check = build_check()?;
    agree_on_layout(stage, &check)?;
    let guest = Guest::prepare(stage, &RDMA)?;
    let said = guest.run(stage, SCRIPT, &["rdma", &check.to_string_lossy()])?;
    for device in DEVICES {
        let works = said.lines().any(|line| line == format!("works: {device}"));
        ensure!(works, "the guest does not say that {device} works:\n{said}");
    }
    Ok(())
}

/// What programs do with NFS in a guest, after the lines that start the kernel's server.
const NFS: &str = include_str!("devices.sh");

/// NFS by devices, all in one guest.
pub(crate) fn nfs(stage: &Stage) -> Result<()> {
    let guest = Guest::prepare(stage, &RDMA)?;
    let program = stage.onego_program();
    let name = program.file_name().context("a program without a name")?.to_string_lossy();
    let kernel = super::nfs::SCRIPT;
    let script = format!("{NFSD}\ncat > /tmp/kernel.sh <<'END'\n{kernel}\nEND\nONEGO=/host/{name}\n{NFS}");
    let program = program.to_string_lossy();
    let programs: Vec<&str> = NFSD_PROGRAMS.iter().copied().chain(["fio", &*program]).collect();
    let said = guest.run(stage, &script, &programs)?;
    let rows = said.lines().filter_map(|line| line.strip_prefix("row: "));
    let rows: String = rows.map(|row| format!("{row}\n")).collect();
    fs::write(stage.path("rows.json"), rows)?;
    load::no_errors(&stage.path("rows.json"))?;
    for (device, checks) in DEVICES.into_iter().zip([9, 7]) {
        let works = said.lines().filter(|line| line.starts_with(&format!("works: {device}: "))).count();
        ensure!(works == checks, "the guest does not say that all works by {device}:\n{said}");
    }
    Ok(())
}

/// The check of the provider.
fn build_check() -> Result<PathBuf> {
    let workspace = Workspace::load()?;
    sh::step("building the check of the provider over rdma-core");
    // As `cargo xtask test` has built it with the tests, if it has: optimized a little, which the guest needs.
    let arguments = ["build", "--quiet", "--profile", "test", "--workspace", "--example", "check"];
    sh::run(workspace.cargo().args(arguments).args(["--features", "onego-cli/rdma-core"]))?;
    Ok(workspace.target_directory.join("debug/examples/check"))
}

/// What the provider declares of the libraries is what their headers say to a compiler.
fn agree_on_layout(stage: &Stage, check: &PathBuf) -> Result<()> {
    let source = stage.path("layout.c");
    fs::write(&source, sh::text(Command::new(check).arg("layout"))?)?;
    let mut compiler = Command::new("gcc-12");
    sh::text(compiler.arg("-fsyntax-only").arg(&source)).context("rdma-core's headers say something else")?;
    Ok(())
}
