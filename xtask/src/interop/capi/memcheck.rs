//! The programs in C of the crate under valgrind, which watches every access to memory of theirs and of our library.

use super::library::{self, environment};
use super::relied_on::{self, PROGRAMS};
use crate::cluster::{Embedded, Stage};
use crate::sh;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;

/// How long a program may take. All of them together take a minute.
const PATIENCE: &str = "900";

/// What is an error beside an access that is one: memory that nothing points to any more.
const VALGRIND: &str = "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
     --fair-sched=yes --suppressions=memcheck.supp";

/// Branches of our library on bytes that nobody has written are no errors: the compiler may look into what an absent value would be
/// before it looks whether there is one, which changes nothing. Such bytes in system calls and in the program are errors.
const SUPPRESSIONS: &str = "{\n  absent-values\n  Memcheck:Cond\n  obj:*/onego/lib/librados.so.2\n}\n";

/// None of the programs makes our library touch memory that is not its own, rely on bytes that nobody has written, or forget
/// memory.
pub(in crate::interop) fn run(stage: &Stage) -> Result<()> {
    let workspace = library::prepare(stage)?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    fs::write(stage.path("memcheck.supp"), SUPPRESSIONS)?;
    for name in PROGRAMS {
        relied_on::compile(&workspace, stage, name, "onego/lib")?;
        let line = format!("{} timeout {PATIENCE} {VALGRIND} ./{name} ceph.conf ours", environment(stage));
        let output = sh::output(&mut stage.program(Path::new("env"), &line))?;
        let said = [output.stdout, output.stderr].concat();
        let is_well = output.status.success() && String::from_utf8_lossy(&said).contains("all is well");
        ensure!(is_well, "{name} under valgrind: {}\n{}", output.status, sh::tail(&said));
    }
    Ok(())
}
