//! Clients of our NBD server and of our vhost-user disks, from every release that we support.

use super::{SIZE, make_disk, qemu_io};
use crate::steps::{fio_without_errors, json, says};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, Server, disk};
use std::fs;

/// Address of the server, in the sandbox's own network.
const BASE: &str = "nbd://127.0.0.1:10809";

/// Libnbd's programs and bindings, QEMU and fio use an image and memory.
pub(super) fn nbd(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    make_disk(sandbox)?;
    sandbox.onego("-c ceph.conf rbd create rbd/disk --size 256M")?;
    sandbox.write("requests.py", include_str!("requests.py"))?;
    let server = Server::nbd(sandbox, "rbd:disk mem:256M")?;
    for name in ["rbd/disk", "mem"] {
        let uri = format!("{BASE}/{name}");
        described(sandbox, name, &uri)?;
        copied(sandbox, &uri)?;
        worked_on(sandbox, &uri)?;
        says(&sandbox.ceph(&format!("python3 requests.py {uri} {SIZE}"))?, "all as it must be")?;
    }
    // The image has what clients have written.
    sandbox.ceph(&format!("nbdcopy disk.raw {BASE}/rbd/disk"))?;
    sandbox.onego("-c ceph.conf rbd export rbd/disk exported.raw")?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("exported.raw"))?;
    server.stop()?;

    // A read-only export on a Unix socket, served by several reactors.
    let server = Server::nbd(sandbox, "rbd:disk --read-only --reactors 2 --socket nbd.sock")?;
    let uri = "nbd+unix:///?socket=nbd.sock";
    says(&sandbox.ceph(&format!("nbdinfo --no-content {uri}"))?, "is_read_only: true")?;
    sandbox.ceph(&format!("nbdcopy {uri} again.raw"))?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("again.raw"))?;
    sandbox.ceph_fails(&format!("nbdcopy disk.raw {uri}"))?;
    server.stop()?;
    ensure!(!sandbox.path("nbd.sock").exists(), "the socket is left");
    Ok(())
}

/// Checks the description of an export that has no data yet. nbdinfo would need the program `file` to name its content.
fn described(sandbox: &Sandbox, name: &str, uri: &str) -> Result<()> {
    let info = json(&sandbox.ceph(&format!("nbdinfo --no-content --json {uri}"))?)?;
    let export = &info["exports"][0];
    ensure!(export["export-size"] == SIZE, "nbdinfo prints {info}");
    for can in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "can_df"] {
        ensure!(export[can] == true, "nbdinfo prints that {can} is {}", export[can]);
    }
    // libnbd asks for lengths of 64 bits since version 1.18.
    let version = sandbox.ceph("nbdinfo --version")?;
    let minor = version.split("nbdinfo 1.").nth(1).and_then(|rest| rest.split('.').next());
    let minor: u32 = minor.with_context(|| format!("no version in {version}"))?.parse()?;
    let packets = if minor >= 18 { "using extended packets" } else { "using structured packets" };
    says(&sandbox.ceph(&format!("nbdinfo --no-content {uri}"))?, packets)?;
    says(&sandbox.ceph(&format!("nbdinfo --list {BASE}"))?, &format!("export=\"{name}\""))?;
    says(&sandbox.ceph(&format!("nbdinfo --map --totals {uri}"))?, "hole,zero")
}

/// Copies there and back with two programs; holes stay holes.
fn copied(sandbox: &Sandbox, uri: &str) -> Result<()> {
    sandbox.ceph(&format!("nbdcopy disk.raw {uri}"))?;
    sandbox.ceph(&format!("nbdcopy --connections=4 --request-size=1048576 {uri} back.raw"))?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("back.raw"))?;
    ensure!(disk::is_sparse(&sandbox.path("back.raw"))?, "the copy has no holes");
    fs::remove_file(sandbox.path("back.raw"))?;
    sandbox.ceph(&format!("qemu-img compare -f raw -F raw disk.raw {uri}"))?;
    sandbox.ceph(&format!("qemu-io -f raw -c map {uri}"))?;
    sandbox.ceph(&format!("qemu-img convert -n -f raw -O raw disk.raw {uri}"))?;
    says(&sandbox.ceph(&format!("qemu-img compare -f raw -F raw disk.raw {uri}"))?, "identical")
}

/// Makes random writes and verifies them.
fn worked_on(sandbox: &Sandbox, uri: &str) -> Result<()> {
    for (kind, size) in [("randwrite", "4k"), ("randrw", "64k"), ("write", "1m")] {
        let line = format!(
            "fio --name={kind} --ioengine=nbd --uri={uri} --rw={kind} --bs={size} --size=32m --iodepth=16 \
             --verify=crc32c --verify_fatal=1 --output-format=json"
        );
        fio_without_errors(&sandbox.ceph(&line)?).with_context(|| format!("{kind} of {size}"))?;
    }
    Ok(())
}

/// Disk by vhost-user, in the words of QEMU's programs.
const DISK: &str = "driver=virtio-blk-vhost-user,path=disk.sock,cache.direct=on";

/// QEMU's programs use an image and memory as a virtual machine would.
pub(super) fn blkio(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    make_disk(sandbox)?;
    sandbox.onego("-c ceph.conf rbd create rbd/disk --size 256M")?;
    for source in ["rbd:disk", "mem:256M"] {
        let server = Server::vhost_user(sandbox, source)?;
        sandbox
            .ceph(&format!("qemu-img convert -n -t none -f raw disk.raw --target-image-opts {DISK}"))
            .context(source)?;
        let same = format!("qemu-img compare -T none --image-opts {DISK} driver=file,filename=disk.raw");
        says(&sandbox.ceph(&same)?, "identical")?;
        sandbox.ceph(&format!("qemu-img convert -T none --image-opts -O raw {DISK} back.raw"))?;
        disk::compare(&sandbox.path("disk.raw"), &sandbox.path("back.raw"))?;
        sandbox
            .ceph(&format!("qemu-img bench -c 3000 -d 32 -s 4k -S 1052672 -t none --image-opts {DISK}"))?;
        qemu_io(sandbox, &format!("--image-opts {DISK}")).context(source)?;
        server.stop()?;
    }
    Ok(())
}
