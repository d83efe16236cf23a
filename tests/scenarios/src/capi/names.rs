//! Symbols that our library exports and libraries that it needs.

use super::library;
use crate::steps::says;
use anyhow::{Result, ensure};
use onego_sandbox::Sandbox;
use std::collections::BTreeSet;
use std::fs;

const OURS: &str = "onego/lib/librados.so.2";

/// Libraries that ours may need.
const NEEDED: [&str; 3] = ["libc.so.6", "libgcc_s.so.1", "ld-linux"];

/// Fails unless our library exports every C symbol of the release's, with symbol versions, and needs only libc and libgcc.
pub(super) fn are_the_same(sandbox: &Sandbox) -> Result<()> {
    library::prepare(sandbox)?;
    let ours = exported(sandbox, OURS)?;
    for library in ["librados.so.2", "librbd.so.1"] {
        copy_of_release(sandbox, library)?;
        let theirs = exported(sandbox, library)?;
        let missing: Vec<_> = theirs.difference(&ours).collect();
        ensure!(missing.is_empty(), "our library lacks symbols of {library}: {missing:?}");
        ensure!(theirs.len() > 200, "{library} exports only {} symbols", theirs.len());
    }
    let versions = sandbox.tool(&format!("readelf --version-info --wide {OURS}"))?;
    says(&versions, "LIBRADOS_14.2.0")?;
    says(&versions, "LIBRADOS_PRIVATE")?;
    let dynamic = sandbox.tool(&format!("readelf --dynamic {OURS}"))?;
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        ensure!(NEEDED.iter().any(|name| line.contains(name)), "our library needs another one: {line}");
    }
    Ok(())
}

/// Copies a library of the release to the sandbox's folder, where the compiler finds it.
pub(super) fn copy_of_release(sandbox: &Sandbox, library: &str) -> Result<()> {
    let installed = sandbox.release_root().join("usr/lib/x86_64-linux-gnu").join(library);
    Ok(fs::copy(installed, sandbox.path(library)).map(drop)?)
}

/// Returns the C symbols that a library exports, without versions.
fn exported(sandbox: &Sandbox, library: &str) -> Result<BTreeSet<String>> {
    let listed = sandbox.tool(&format!("readelf --dyn-syms --wide {library}"))?;
    let names = listed.lines().filter(|line| !line.contains(" UND ")).filter_map(|line| {
        let name = line.split_whitespace().nth(7)?.split('@').next()?;
        let is_c = ["rados_", "rbd_"].iter().any(|start| name.starts_with(start));
        is_c.then(|| name.to_owned())
    });
    let names: BTreeSet<_> = names.collect();
    ensure!(!names.is_empty(), "{library} exports no C symbol");
    Ok(names)
}
