//! Programs that were built for librados and librbd, on our library under these names.

use crate::capi;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::{FIO, ensure_pool, fio_without_errors, json, says};
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What Python's bindings do with objects and images.
const BINDINGS: &str = include_str!("capi.py");

/// Programs of a release on our embedded cluster.
pub(crate) fn on_ours(stage: &Stage) -> Result<()> {
    let workspace = prepare(stage)?;
    same_names(stage)?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    programs(stage)?;
    relied_on(&workspace, stage)
}

/// Programs of a release on a real cluster of that release.
pub(crate) fn on_real_ceph(stage: &Stage) -> Result<()> {
    prepare(stage)?;
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    programs(stage)
}

/// Lays the library out on the stage.
fn prepare(stage: &Stage) -> Result<Workspace> {
    let workspace = Workspace::load()?;
    // The tests of the crate have built one beside the program, which is nearly as quick.
    let tested = stage.onego_program().with_file_name("deps/libonego_capi.so");
    let library = if tested.exists() { tested } else { capi::build(&workspace)? };
    capi::install(&workspace, &library, &stage.path("onego"))?;
    Ok(workspace)
}

/// Runs a line on our library.
fn ours(stage: &Stage, line: &str) -> Result<String> {
    let library = stage.path("onego/lib");
    stage.ceph(&format!("env LD_LIBRARY_PATH={} {line}", library.display()))
}

/// fio, QEMU and Python's bindings.
fn programs(stage: &Stage) -> Result<()> {
    ensure_pool(stage)?;
    let loaded = ours(stage, "env LD_TRACE_LOADED_OBJECTS=1 fio")?;
    // Both names are one file, which may be loaded under either of them.
    says(&loaded, "onego/lib/lib")?;
    let foreign = loaded.lines().find(|line| {
        ["librados", "librbd"].iter().any(|name| line.contains(name)) && !line.contains("onego/lib/")
    });
    ensure!(foreign.is_none(), "fio has loaded another library: {foreign:?}");
    fio(stage)?;
    qemu(stage)?;
    fs::write(stage.path("capi.py"), BINDINGS)?;
    says(&ours(stage, "python3 capi.py")?, "all is well")
}

fn fio(stage: &Stage) -> Result<()> {
    stage.ceph("rbd create --size 64M --image-feature layering rbd/fio")?;
    for (kind, size) in [("randwrite", "4k"), ("write", "1m"), ("randrw", "64k")] {
        let engine = "--ioengine=rbd --rbdname=fio --size=64m";
        let line = format!("fio --name={kind} --rw={kind} --bs={size} {engine} {FIO}");
        fio_without_errors(&ours(stage, &line)?)?;
    }
    let engine = "--ioengine=rados --conf=ceph.conf --size=16m --nrfiles=8 --numjobs=4";
    let line = format!("fio --name=objects --rw=randwrite --bs=4k {engine} {FIO}");
    fio_without_errors(&ours(stage, &line)?)?;
    stage.ceph("rbd rm rbd/fio").map(drop)
}

/// An image that QEMU writes by our library and reads by both.
fn qemu(stage: &Stage) -> Result<()> {
    disk::make(&stage.path("disk.raw"), 9)?;
    let disk = "rbd:rbd/disk:conf=ceph.conf";
    ours(stage, &format!("qemu-img convert -f raw -O raw disk.raw {disk}"))?;
    says(&ours(stage, &format!("qemu-img compare -f raw -F raw disk.raw {disk}"))?, "identical")?;
    says(&stage.ceph(&format!("qemu-img compare -f raw -F raw disk.raw {disk}"))?, "identical")?;
    ours(stage, &format!("qemu-img convert -f raw -O raw {disk} back.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;
    let small = "rbd:rbd/small:conf=ceph.conf";
    ours(stage, &format!("qemu-img create -f raw {small} 64M"))?;
    ours(stage, &format!("qemu-img resize -f raw {small} 96M"))?;
    let info = json(&ours(stage, &format!("qemu-img info -f raw --output json {small}"))?)?;
    ensure!(info["virtual-size"] == 96 << 20, "`qemu-img info` says {info}");
    for (write, read) in [
        ("write -P 7 1M 64k", "read -P 7 1M 64k"),
        ("writev -P 9 4M 4k 8k 4k", "readv -P 9 4M 8k 4k 4k"),
        ("write -z 1M 32k", "read -P 0 1M 32k"),
        ("discard 4M 4M", "read -P 0 4M 16k"),
        ("flush", "read -P 7 1056k 32k"),
    ] {
        let library = stage.path("onego/lib");
        let environment = format!("LD_LIBRARY_PATH={}", library.display());
        let io = ["env", &environment, "qemu-io", "-f", "raw", "-c", write, "-c", read, small];
        let said = stage.ceph_words(&io)?;
        ensure!(!said.contains("failed"), "`{write}`, `{read}`:\n{said}");
    }
    for image in ["disk", "small"] {
        stage.ceph(&format!("rbd rm rbd/{image}"))?;
    }
    Ok(())
}

/// Programs in C rely on the same of Ceph's library and of ours: one program, run on both.
fn relied_on(workspace: &Workspace, stage: &Stage) -> Result<()> {
    let (crates, program) = (workspace.workspace_root.join("crates/capi"), stage.path("traps"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg("-I").arg(crates.join("include")).arg(crates.join("tests/traps.c"));
    // Ceph's libraries have two names, ours has both.
    cc.arg("-Wl,--allow-shlib-undefined")
        .args([stage.path("librados.so.2"), stage.path("librbd.so.1")])
        .arg("-lpthread");
    sh::text(&mut cc)?;
    says(&stage.ceph("./traps ceph.conf")?, "all is well")?;
    says(&ours(stage, "./traps ceph.conf ours")?, "all is well")
}

/// Every name in C that the release's libraries export is exported by ours, and every version.
fn same_names(stage: &Stage) -> Result<()> {
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
