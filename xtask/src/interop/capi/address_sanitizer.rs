//! The programs in C of the crate, and our library, as the address sanitizer builds them.

use super::library::environment;
use super::relied_on::{self, PROGRAMS};
use crate::capi;
use crate::cluster::{Embedded, Stage};
use crate::interop::steps::says;
use crate::sanitize::{TARGET, sanitized};
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Result, ensure};
use std::path::Path;

/// None of the programs makes our library touch memory that was freed, or that is outside of what was asked for.
pub(in crate::interop) fn run(stage: &Stage) -> Result<()> {
    let workspace = Workspace::load()?;
    sh::run(sanitized(&workspace).args(["build", "--quiet", "--target", TARGET, "--package", "onego-capi"]))?;
    let library = workspace.target_directory.join(TARGET).join("debug/libonego_capi.so");
    capi::install(&workspace, &library, &stage.path("onego"))?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    for name in PROGRAMS {
        relied_on::compile(&workspace, stage, name, "onego/lib", &["-fsanitize=address"])?;
        // What is forgotten is valgrind's to find: here, threads that run until the end hide it.
        let line =
            format!("{} ASAN_OPTIONS=detect_leaks=0 timeout 600 ./{name} ceph.conf ours", environment(stage));
        let output = sh::output(&mut stage.program(Path::new("env"), &line))?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{name}: {}\n{}", output.status, sh::tail(&said));
        says(&String::from_utf8_lossy(&said), "all is well")?;
    }
    Ok(())
}
