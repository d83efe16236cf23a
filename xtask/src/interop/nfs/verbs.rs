//! Our provider over rdma-core, on the kernel's devices in software: siw, which is iWARP, and rxe, which is RoCE.

use crate::cluster::Stage;
use crate::guest::{Guest, NFSD, NFSD_PROGRAMS, RDMA};
use crate::interop::bench::no_errors;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The kinds of devices. Each has a guest of its own: the kernel was seen to wait for ever when one was deleted that its own
/// client and server of NFS had used.
const DEVICES: [&str; 2] = ["siw", "rxe"];

/// Runs the provider's check. The guest's address is QEMU's.
const SCRIPT: &str = "
export PATH=/bin:/host
rdma link add dev0 type $DEVICE netdev eth0 && check 10.0.2.15 $DEVICE && exit
dmesg | grep -iE 'rdma|siw|rxe' | tail -n 8
exit 1
";

/// Both ends in one guest.
pub(crate) fn with_itself(stage: &Stage) -> Result<()> {
    let check = build_check()?;
    agree_on_layout(stage, &check)?;
    let guest = Guest::prepare(stage, &RDMA)?;
    for device in DEVICES {
        let script = format!("DEVICE={device}\n{SCRIPT}");
        guest
            .start(stage, device, &script, &["rdma", &check.to_string_lossy()], &[])?
            .end()
            .with_context(|| device)?;
    }
    Ok(())
}

/// What programs do with NFS in a guest, after the lines that start the kernel's server.
const NFS: &str = include_str!("devices.sh");

/// NFS by devices, all ends in one guest.
pub(crate) fn nfs(stage: &Stage) -> Result<()> {
    let guest = Guest::prepare(stage, &RDMA)?;
    let program = stage.onego_program();
    let name = program.file_name().context("a program without a name")?.to_string_lossy();
    let kernel = super::kernel::SCRIPT;
    let program = program.to_string_lossy();
    let programs: Vec<&str> = NFSD_PROGRAMS.iter().copied().chain(["fio", &*program]).collect();
    let mut rows = String::new();
    for (device, checks) in DEVICES.into_iter().zip([9, 7]) {
        let script = format!(
            "DEVICE={device}\nONEGO=/host/{name}\n{NFSD}\ncat > /tmp/kernel.sh <<'END'\n{kernel}\nEND\n{NFS}"
        );
        let said = guest.start(stage, device, &script, &programs, &[])?.end().with_context(|| device)?;
        let works = said.lines().filter(|line| line.starts_with("works: ")).count();
        // The script with which the kernel's client is checked says it once more.
        ensure!(works == checks + 1, "the guest does not say that all works by {device}:\n{said}");
        rows.extend(said.lines().filter_map(|line| line.strip_prefix("row: ")).map(|row| format!("{row}\n")));
    }
    fs::write(stage.path("rows.json"), rows)?;
    no_errors(&stage.path("rows.json"))
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
