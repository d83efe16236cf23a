//! Programs that were built for Ceph's libraries.

use super::library::{environment, ours};
use crate::cluster::Stage;
use crate::interop::disk;
use crate::interop::steps::{FIO, ensure_pool, fio_without_errors, json, says};
use anyhow::{Result, ensure};
use std::fs;

/// What Python's bindings do with objects and images.
const BINDINGS: &str = include_str!("bindings.py");

/// fio, QEMU and Python's bindings.
pub(super) fn run(stage: &Stage) -> Result<()> {
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
    fs::write(stage.path("bindings.py"), BINDINGS)?;
    says(&ours(stage, "python3 bindings.py")?, "all is well")
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
        let io = ["env", &environment(stage), "qemu-io", "-f", "raw", "-c", write, "-c", read, small];
        let said = stage.ceph_words(&io)?;
        ensure!(!said.contains("failed"), "`{write}`, `{read}`:\n{said}");
    }
    for image in ["disk", "small"] {
        stage.ceph(&format!("rbd rm rbd/{image}"))?;
    }
    Ok(())
}
