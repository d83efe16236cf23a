//! Clients of NBD on our server: libnbd's programs, QEMU's, and fio, on an image and on memory.

use super::{SIZE, make_disk, run};
use crate::cluster::{Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::{fio_without_errors, json, says};
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// Requests that these programs never make.
const SCRIPT: &str = include_str!("requests.py");
/// Where the server is: any port, in the stage's own network.
const BASE: &str = "nbd://127.0.0.1:10809";

/// An image of our embedded cluster, and memory, from one server.
pub(crate) fn clients(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    make_disk(stage)?;
    stage.onego("-c ceph.conf rbd create rbd/disk --size 256M")?;
    let server = Embedded::start_nbd(stage, "-c ceph.conf", "rbd:disk mem:256M")?;
    for name in ["rbd/disk", "mem"] {
        let uri = format!("{BASE}/{name}");
        described(stage, name, &uri)?;
        copied(stage, &uri)?;
        worked_on(stage, &uri)?;
        fs::write(stage.path("requests.py"), SCRIPT)?;
        says(&run(stage, &format!("/usr/bin/python3 requests.py {uri} {SIZE}"))?, "all as it must be")?;
    }
    // What clients have written is in the image.
    run(stage, &format!("nbdcopy disk.raw {BASE}/rbd/disk"))?;
    stage.onego("-c ceph.conf rbd export rbd/disk exported.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("exported.raw"))?;
    server.stop()?;

    // A Unix socket, several reactors, and nobody may write.
    let more = "rbd:disk --read-only --reactors 2 --socket nbd.sock";
    let server = Embedded::start_nbd(stage, "-c ceph.conf", more)?;
    let uri = "nbd+unix:///?socket=nbd.sock";
    says(&run(stage, &format!("nbdinfo {uri}"))?, "is_read_only: true")?;
    fs::remove_file(stage.path("exported.raw"))?;
    run(stage, &format!("nbdcopy {uri} exported.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("exported.raw"))?;
    ensure!(run(stage, &format!("nbdcopy disk.raw {uri}")).is_err(), "a read-only export was written to");
    server.stop()?;
    ensure!(!stage.path("nbd.sock").exists(), "the socket is left");
    Ok(())
}

/// What the server says of an export that holds nothing yet.
fn described(stage: &Stage, name: &str, uri: &str) -> Result<()> {
    let info = json(&run(stage, &format!("nbdinfo --json {uri}"))?)?;
    let export = &info["exports"][0];
    ensure!(export["export-size"] == SIZE, "nbdinfo says {info}");
    for can in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "can_df"] {
        ensure!(export[can] == true, "nbdinfo says {can} is {}", export[can]);
    }
    says(&run(stage, &format!("nbdinfo {uri}"))?, packets(stage)?)?;
    says(&run(stage, &format!("nbdinfo --list {BASE}"))?, &format!("export=\"{name}\""))?;
    says(&run(stage, &format!("nbdinfo --map --totals {uri}"))?, "hole,zero")
}

/// How `nbdinfo` calls the messages that its library asks for: with lengths of 64 bits since version 1.18.
fn packets(stage: &Stage) -> Result<&'static str> {
    let said = run(stage, "nbdinfo --version")?;
    let minor = said.split("nbdinfo 1.").nth(1).and_then(|rest| rest.split('.').next());
    let minor: u32 = minor.with_context(|| format!("no version in {said}"))?.parse()?;
    Ok(if minor >= 18 { "using extended packets" } else { "using structured packets" })
}

/// Copies there and back by two programs, of which holes stay holes.
fn copied(stage: &Stage, uri: &str) -> Result<()> {
    run(stage, &format!("nbdcopy disk.raw {uri}"))?;
    run(stage, &format!("nbdcopy --connections=4 --request-size=1048576 {uri} back.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;
    ensure!(disk::is_sparse(&stage.path("back.raw"))?, "the copy has no holes");
    fs::remove_file(stage.path("back.raw"))?;
    run(stage, &format!("qemu-img compare -f raw -F raw disk.raw {uri}"))?;
    run(stage, &format!("qemu-io -f raw -c map {uri}"))?;
    run(stage, &format!("qemu-img convert -n -f raw -O raw disk.raw {uri}"))?;
    says(&run(stage, &format!("qemu-img compare -f raw -F raw disk.raw {uri}"))?, "identical")
}

/// Random writes that are read again and compared.
fn worked_on(stage: &Stage, uri: &str) -> Result<()> {
    for (kind, size) in [("randwrite", "4k"), ("randrw", "64k"), ("write", "1m")] {
        let line = format!(
            "fio --name={kind} --ioengine=nbd --uri={uri} --rw={kind} --bs={size} --size=32m --iodepth=16 \
             --verify=crc32c --verify_fatal=1 --output-format=json"
        );
        fio_without_errors(&run(stage, &line)?).with_context(|| format!("{kind} of {size}"))?;
    }
    Ok(())
}
