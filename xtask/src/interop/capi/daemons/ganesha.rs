//! Ganesha's tool for the grace periods of its servers, which keeps them in an object.

use super::on_library::{Library, Run};
use crate::interop::steps::says;
use crate::sh;
use anyhow::{Result, ensure};
use std::os::unix::process::ExitStatusExt as _;

const TOOL: &str =
    "ganesha-rados-grace --cephconf ceph.conf --userid admin --pool rbd --ns ganesha --oid grace";

/// What is asked, and what is shown of epochs and servers afterwards: N needs its grace period, E enforces one.
const STEPS: [(&str, &str); 9] = [
    ("add a b", "cur=1 rec=0 a E b E"),
    ("start a", "cur=2 rec=1 a NE b E"),
    ("noenforce a", "cur=2 rec=1 a N b E"),
    ("enforce a", "cur=2 rec=1 a NE b E"),
    ("join b", "cur=2 rec=1 a NE b NE"),
    ("lift a", "cur=2 rec=1 a E b NE"),
    ("lift b", "cur=2 rec=0 a E b E"),
    ("start b", "cur=3 rec=2 a E b NE"),
    ("remove b", "cur=3 rec=0 a E"),
];

/// Grace periods begin and end, and the object has what the tool says.
pub(super) fn keeps_grace(run: Run<'_>) -> Result<()> {
    refused(run, "dump")?;
    for (line, expected) in STEPS {
        done(run, line)?;
        let said = shown(run)?;
        let shown: Vec<&str> = said.split_whitespace().filter(|word| !word.starts_with("==")).collect();
        ensure!(shown.join(" ") == expected, "after `{line}` it shows {said}");
    }
    done(run, "member a")?;
    refused(run, "member b")?;
    let rados = "rados -p rbd --namespace ganesha";
    says(&run.stage.ceph(&format!("{rados} listomapvals grace"))?, "value (1 bytes)")?;
    run.stage.ceph(&format!("{rados} get grace grace.bin"))?;
    let epochs = std::fs::read(run.stage.path("grace.bin"))?;
    ensure!(epochs == [3_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat(), "the object has {epochs:?}");
    run.stage.ceph(&format!("{rados} rm grace")).map(drop)
}

/// How often Ceph's library may end the tool before it has said anything.
const ATTEMPTS: usize = 10;

/// Carries out a line. The tool ends without closing its handle, and now and then Ceph's library crashes then, which is after all has
/// been done.
fn done(run: Run<'_>, line: &str) -> Result<()> {
    let output = sh::output(&mut run.stage.ceph_command(&run.line(&format!("{TOOL} {line}"))))?;
    let is_done = output.status.success() || (run.on == Library::Ceph && output.status.signal().is_some());
    ensure!(is_done, "`{line}` failed: {}", output.status);
    Ok(())
}

/// What the tool shows. Such a crash may take along what has not been printed yet.
fn shown(run: Run<'_>) -> Result<String> {
    attempted(run, || run.run(&format!("{TOOL} dump")))
}

/// The tool refuses a line, and does not crash instead.
fn refused(run: Run<'_>, line: &str) -> Result<()> {
    attempted(run, || run.fails(&format!("{TOOL} {line}"))).map(drop)
}

fn attempted<T>(run: Run<'_>, once: impl Fn() -> Result<T>) -> Result<T> {
    match run.on {
        Library::Ceph => (1..ATTEMPTS).find_map(|_| once().ok()).map_or_else(once, Ok),
        Library::Ours => once(),
    }
}
