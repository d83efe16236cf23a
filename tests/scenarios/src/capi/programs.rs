//! fio, QEMU and Python's bindings on our library.

use super::library::{self, environment, ours};
use crate::steps::{FIO, ensure_pool, fio_without_errors, json, says};
use anyhow::{Result, ensure};
use onego_sandbox::{Sandbox, disk};

pub(super) fn work(sandbox: &Sandbox) -> Result<()> {
    library::prepare(sandbox)?;
    ensure_pool(sandbox)?;
    let loaded = ours(sandbox, "env LD_TRACE_LOADED_OBJECTS=1 fio")?;
    // Both names are one file, which may be loaded under either.
    says(&loaded, "onego/lib/lib")?;
    let is_foreign = |line: &&str| {
        ["librados", "librbd"].iter().any(|name| line.contains(name)) && !line.contains("onego/lib/")
    };
    let foreign = loaded.lines().find(is_foreign);
    ensure!(foreign.is_none(), "fio has loaded another library: {foreign:?}");
    fio(sandbox)?;
    qemu(sandbox)?;
    sandbox.write("bindings.py", include_str!("bindings.py"))?;
    says(&ours(sandbox, "python3 bindings.py")?, "all is well")
}

fn fio(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd create --size 64M --image-feature layering rbd/fio")?;
    for options in [
        "--rw=randwrite --bs=4k --ioengine=rbd --rbdname=fio --size=64m",
        "--rw=write --bs=1m --ioengine=rbd --rbdname=fio --size=64m",
        "--rw=randrw --bs=64k --ioengine=rbd --rbdname=fio --size=64m",
        "--rw=randwrite --bs=4k --ioengine=rados --conf=ceph.conf --size=16m --nrfiles=8 --numjobs=4",
    ] {
        fio_without_errors(&ours(sandbox, &format!("fio --name=job {options} {FIO}"))?)?;
    }
    sandbox.ceph("rbd rm rbd/fio").map(drop)
}

/// Writes images with QEMU's programs on our library and reads them on both libraries.
fn qemu(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 9)?;
    let disk = "rbd:rbd/disk:conf=ceph.conf";
    ours(sandbox, &format!("qemu-img convert -f raw -O raw disk.raw {disk}"))?;
    let compare = format!("qemu-img compare -f raw -F raw disk.raw {disk}");
    says(&ours(sandbox, &compare)?, "identical")?;
    says(&sandbox.ceph(&compare)?, "identical")?;
    ours(sandbox, &format!("qemu-img convert -f raw -O raw {disk} back.raw"))?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("back.raw"))?;

    let small = "rbd:rbd/small:conf=ceph.conf";
    ours(sandbox, &format!("qemu-img create -f raw {small} 64M"))?;
    ours(sandbox, &format!("qemu-img resize -f raw {small} 96M"))?;
    let info = json(&ours(sandbox, &format!("qemu-img info -f raw --output json {small}"))?)?;
    ensure!(info["virtual-size"] == 96 << 20, "`qemu-img info` prints {info}");
    for (write, read) in [
        ("write -P 7 1M 64k", "read -P 7 1M 64k"),
        ("writev -P 9 4M 4k 8k 4k", "readv -P 9 4M 8k 4k 4k"),
        ("write -z 1M 32k", "read -P 0 1M 32k"),
        ("discard 4M 4M", "read -P 0 4M 16k"),
        ("flush", "read -P 7 1056k 32k"),
    ] {
        let io = ["env", &environment(sandbox), "qemu-io", "-f", "raw", "-c", write, "-c", read, small];
        let said = sandbox.ceph_words(&io)?;
        ensure!(!said.contains("failed"), "`{write}`, `{read}`:\n{said}");
    }
    for image in ["disk", "small"] {
        sandbox.ceph(&format!("rbd rm rbd/{image}"))?;
    }
    Ok(())
}
