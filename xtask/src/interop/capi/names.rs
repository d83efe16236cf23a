//! The names that libraries export.

use crate::cluster::Stage;
use crate::interop::steps::says;
use crate::sh;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Every name in C that the release's libraries export is exported by ours, and every version.
pub(super) fn are_the_same(stage: &Stage) -> Result<()> {
    let ours = exported(&stage.path("onego/lib/librados.so.2"))?;
    for library in ["librados.so.2", "librbd.so.1"] {
        let copy = stage.path(library);
        fs::write(&copy, stage_file(stage, &format!("/usr/lib/x86_64-linux-gnu/{library}"))?)?;
        let theirs = exported(&copy)?;
        let missing: Vec<_> = theirs.difference(&ours).collect();
        ensure!(missing.is_empty(), "our library lacks names of {library}: {missing:?}");
        ensure!(theirs.len() > 200, "only {} names are read of {library}", theirs.len());
    }
    let versions = sh::text(
        Command::new("readelf").args(["--version-info", "--wide"]).arg(stage.path("onego/lib/librados.so.2")),
    )?;
    says(&versions, "LIBRADOS_14.2.0")?;
    says(&versions, "LIBRADOS_PRIVATE")?;
    let needed =
        sh::text(Command::new("readelf").arg("--dynamic").arg(stage.path("onego/lib/librados.so.2")))?;
    for line in needed.lines().filter(|line| line.contains("(NEEDED)")) {
        let is_expected = ["libc.so.6", "libgcc_s.so.1", "ld-linux"].iter().any(|name| line.contains(name));
        ensure!(is_expected, "our library depends on more than libc and libgcc: {line}");
    }
    Ok(())
}

/// A file of the system that has the release's programs.
fn stage_file(stage: &Stage, path: &str) -> Result<Vec<u8>> {
    sh::bytes(&mut stage.ceph_command(&format!("cat {path}")))
}

/// The names in C that a library exports, without versions.
fn exported(library: &Path) -> Result<BTreeSet<String>> {
    let mut readelf = Command::new("readelf");
    let listed = sh::text(readelf.args(["--dyn-syms", "--wide"]).arg(library))?;
    let names = listed.lines().filter(|line| !line.contains(" UND ")).filter_map(|line| {
        let name = line.split_whitespace().nth(7)?.split('@').next()?;
        let is_c = ["rados_", "rbd_"].iter().any(|start| name.starts_with(start));
        is_c.then(|| name.to_owned())
    });
    let names: BTreeSet<_> = names.collect();
    ensure!(!names.is_empty(), "`{}` exports nothing", library.display());
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_library_are_read_without_their_versions() {
        // Any shared object that the compiler has made will do: it exports nothing of ours.
        let own = std::env::current_exe().unwrap();
        assert!(exported(&own).unwrap_err().to_string().contains("exports nothing"));
    }
}
