//! Our RDMA provider over rdma-core, on the kernel's software devices: siw (iWARP) and rxe (RoCE).

use super::kernel::files;
use crate::bench::no_errors;
use crate::guests::script;
use anyhow::{Context as _, Result};
use onego_sandbox::{Boot, NFSD, NFSD_PROGRAMS, RDMA, Sandbox, sh, workspace};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Kinds of devices. Each has a guest of its own: the kernel was seen to hang when a device was deleted that its own
/// NFS client and server had used.
const DEVICES: [&str; 2] = ["siw", "rxe"];

/// Checks the provider with both ends in one guest, and then NFS with all ends in that guest.
pub(super) fn all(sandbox: &Sandbox) -> Result<()> {
    let check = build_check()?;
    // Declarations in Rust must agree with the headers of rdma-core.
    sandbox.write("layout.c", sh::text(Command::new(&check).arg("layout"))?)?;
    sandbox.tool("gcc-12 -fsyntax-only layout.c").context("rdma-core's headers differ")?;
    let mut rows = String::new();
    for device in DEVICES {
        let variables = format!("DEVICE={device}");
        let nfs = script(&format!("{variables}\n{NFSD}"), include_str!("devices.sh"));
        let boot = Boot::new(sandbox, &RDMA)?.onego().programs(NFSD_PROGRAMS);
        let boot = boot.programs(&["fio", &check.to_string_lossy()]);
        let boot = boot.check("provider", &script(&variables, include_str!("provider.sh")));
        let mut guest = boot.check("nfs", &nfs).check("files", &files("")).start(device)?;
        guest.check("provider").context(device)?;
        let said = guest.check("nfs").context(device)?;
        for row in said.lines().filter_map(|line| line.strip_prefix("row: ")) {
            writeln!(rows, "{row}")?;
        }
    }
    sandbox.write("rows.json", rows)?;
    no_errors(&sandbox.path("rows.json"))
}

/// Builds the check of the provider with the flags of the tests.
fn build_check() -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--profile=test", "--workspace", "--example=check"];
    sh::run(workspace::cargo().args(arguments).arg("--features=onego-cli/rdma-core"))?;
    Ok(workspace::target()?.join("debug/examples/check"))
}
