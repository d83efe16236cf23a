//! The programs in C of the crate under valgrind, which watches every access to memory of theirs and of our library.

use super::library::{self, environment};
use super::relied_on::{self, PROGRAMS};
use crate::cluster::{Embedded, Stage};
use crate::interop::steps::says;
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How long a program may take. All of them together take three minutes.
const PATIENCE: &str = "900";

/// How it watches. What is lost at the end is looked for in its logs, of which each process has one: a forked process has lost what
/// the threads of its parent have.
const VALGRIND: &str = "valgrind --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=none \
     --fair-sched=yes --suppressions=memcheck.supp";

/// What is no error: branches of our library on bytes that nobody has written. The compiler may look into what an absent value would
/// be before it looks whether there is one, which changes nothing. Such bytes in system calls and in the program are errors.
const SUPPRESSIONS: &str = "\
{
  absent-values
  Memcheck:Cond
  obj:*/onego/lib/librados.so.2
}
";

/// None of the programs makes our library touch memory that is not its own, rely on bytes that nobody has written, or forget
/// memory.
pub(in crate::interop) fn run(stage: &Stage) -> Result<()> {
    let workspace = library::prepare(stage)?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    fs::write(stage.path("memcheck.supp"), SUPPRESSIONS)?;
    for name in PROGRAMS {
        relied_on::compile(&workspace, stage, name, "onego/lib", &[])?;
        let line = format!(
            "{} timeout {PATIENCE} {VALGRIND} --log-file={name}.log.%p ./{name} ceph.conf ours",
            environment(stage)
        );
        let output = sh::output(&mut stage.program(Path::new("env"), &line))?;
        let said = [output.stdout, output.stderr].concat();
        let is_well = output.status.success() && String::from_utf8_lossy(&said).contains("all is well");
        let log = log(stage, name)?;
        ensure!(is_well, "{name} under valgrind: {}\n{}\n{log}", output.status, sh::tail(&said));
        says(&log, "definitely lost: 0 bytes in 0 blocks")?;
    }
    Ok(())
}

/// What valgrind has said of the first process of a program.
fn log(stage: &Stage, name: &str) -> Result<String> {
    let mut logs = BTreeMap::new();
    for entry in fs::read_dir(stage.path("."))? {
        let path = entry?.path();
        let file = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        if let Some(pid) = file.strip_prefix(&format!("{name}.log.")) {
            logs.insert(pid.parse::<u32>()?, path);
        }
    }
    let (_, first) = logs.pop_first().with_context(|| format!("valgrind has no log of {name}"))?;
    Ok(fs::read_to_string(first)?)
}
