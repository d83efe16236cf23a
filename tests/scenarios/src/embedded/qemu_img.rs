//! QEMU's driver for images, which uses librbd, against our embedded cluster.

use crate::steps::{exports_are_whole, json, same_files, says, says_error};
use anyhow::{Result, ensure};
use onego_sandbox::{ADDRESS, Sandbox, disk};

/// A guest's requests across borders of objects. `qemu-io` compares each read.
const REQUESTS: [&str; 9] = [
    "write -P 7 1M 10M",
    "write -z 3M 2M",
    "discard 8M 1M",
    "flush",
    "read -P 7 1M 2M",
    "read -P 0 3M 2M",
    "read -P 7 5M 3M",
    "read -P 0 8M 1M",
    "read -P 0 95M 1M",
];

/// On a cluster without keys, with checksums.
pub(super) fn without_keys(sandbox: &Sandbox) -> Result<()> {
    make_disk(sandbox)?;
    containers(sandbox)?;
    images(sandbox, "crc")
}

/// On a cluster with keys: with checksums, encrypted, without files, and without sufficient rights.
pub(super) fn with_keys(sandbox: &Sandbox) -> Result<()> {
    make_disk(sandbox)?;
    images(sandbox, "crc")?;
    images(sandbox, "secure")?;
    without_files(sandbox)?;
    refused(sandbox)
}

fn make_disk(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 6)?;
    sandbox.ceph("qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2").map(drop)
}

/// Forms of qcow2 that `onego cp` reads.
const FORMS: [&str; 8] = [
    "",
    "-c",
    "-o cluster_size=4k",
    "-c -o cluster_size=2M",
    "-o compat=0.10",
    "-c -o compat=0.10",
    "-o preallocation=metadata",
    "-o data_file=data.raw",
];

/// Formats of QEMU that are refused.
const REFUSED: [&str; 5] = ["vmdk", "vdi", "vpc", "vhdx", "qed"];

/// Files of QEMU are read, ours are right to QEMU, and other formats are refused.
fn containers(sandbox: &Sandbox) -> Result<()> {
    for form in FORMS {
        sandbox.ceph(&format!("qemu-img convert -f raw -O qcow2 {form} disk.raw form.qcow2"))?;
        sandbox.onego("cp form.qcow2 read.raw --follow-backing-files --replace")?;
        same_files(sandbox, "disk.raw", "read.raw")?;
    }
    sandbox.ceph("qemu-img create -f qcow2 -b disk.raw -F raw top.qcow2")?;
    says_error(&sandbox.onego_fails("cp top.qcow2 top.raw")?, "--follow-backing-files")?;
    sandbox.onego("cp top.qcow2 top.raw --follow-backing-files")?;
    same_files(sandbox, "disk.raw", "top.raw")?;
    sandbox.onego("cp disk.raw ours.qcow2")?;
    says(&sandbox.ceph("qemu-img check ours.qcow2")?, "No errors were found")?;
    says(&sandbox.ceph("qemu-img compare -f raw -F qcow2 disk.raw ours.qcow2")?, "identical")?;
    for format in REFUSED {
        sandbox.ceph(&format!("qemu-img convert -f raw -O {format} disk.raw container"))?;
        says_error(&sandbox.onego_fails("cp container never.raw")?, "qemu-img convert")?;
    }
    Ok(())
}

/// Returns QEMU's name of an image, for a user and with more of Ceph's options.
fn url(image: &str, user: &str, options: &str) -> String {
    format!("rbd:{image}:conf=ceph.conf:id={user}{options}")
}

/// The life of two images: one converted from qcow2, one created empty and written to.
fn images(sandbox: &Sandbox, mode: &str) -> Result<()> {
    let modes = format!(":ms_client_mode={mode}:ms_mon_client_mode={mode}");
    let disk = url("rbd/disk", "admin", &modes);
    sandbox.ceph(&format!("qemu-img convert -f qcow2 -O raw disk.qcow2 {disk}"))?;
    says(&sandbox.ceph(&format!("qemu-img compare -f qcow2 -F raw disk.qcow2 {disk}"))?, "identical")?;
    sandbox.ceph(&format!("qemu-img convert -f raw -O raw {disk} theirs.raw"))?;
    sandbox.onego(&format!("--conf ceph.conf --ms-mode {mode} rbd export rbd/disk ours.raw"))?;
    exports_are_whole(sandbox)?;

    let empty = url("rbd/empty", "admin", &modes);
    sandbox.ceph(&format!("qemu-img create -f raw {empty} 64M"))?;
    sandbox.ceph(&format!("qemu-img resize -f raw {empty} 96M"))?;
    let info = json(&sandbox.ceph(&format!("qemu-img info -f raw --output json {empty}"))?)?;
    ensure!(info["virtual-size"] == 96 << 20, "`qemu-img info` prints {info}");
    says(&sandbox.onego("--conf ceph.conf rbd info rbd/empty")?, "96 MiB")?;
    let mut words = vec!["qemu-io", "-f", "raw"];
    words.extend(REQUESTS.iter().flat_map(|request| ["-c", request]));
    words.push(&empty);
    let said = sandbox.ceph_words(&words)?;
    ensure!(!said.contains("Pattern verification failed"), "qemu-io read other data:\n{said}");

    sandbox.ceph(&format!("qemu-img snapshot -c first {disk}"))?;
    says(&sandbox.ceph(&format!("qemu-img snapshot -l {disk}"))?, "first")?;
    for step in ["-a", "-d"] {
        sandbox.ceph(&format!("qemu-img snapshot {step} first {disk}"))?;
    }
    for image in ["disk", "empty"] {
        sandbox.onego(&format!("--conf ceph.conf rbd rm rbd/{image}"))?;
    }
    Ok(())
}

/// As libvirt names an image: with the monitor's address and a key, without ceph.conf and keyring.
fn without_files(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph(&format!("qemu-img convert -f qcow2 -O raw disk.qcow2 {}", url("rbd/disk", "admin", "")))?;
    let key = sandbox.ceph("ceph auth get-key client.admin")?;
    sandbox.ceph(&format!(
        "env --unset CEPH_CONF qemu-img convert --object secret,id=key,format=base64,data={} --image-opts \
         driver=rbd,pool=rbd,image=disk,user=admin,server.0.host={ADDRESS},server.0.port=3300,\
         auth-client-required.0=cephx,key-secret=key -O raw theirs.raw",
        key.trim()
    ))?;
    same_files(sandbox, "disk.raw", "theirs.raw")
}

/// A user without rights to the pool and one who may only read get EPERM.
fn refused(sandbox: &Sandbox) -> Result<()> {
    for (id, osd) in [("stranger", "profile rbd pool=other"), ("reader", "profile rbd-read-only pool=rbd")] {
        let name = format!("client.{id}");
        let keyring = sandbox.ceph_words(&[
            "ceph",
            "auth",
            "get-or-create",
            &name,
            "mon",
            "profile rbd",
            "osd",
            osd,
        ])?;
        sandbox.write(&format!("{id}.keyring"), keyring)?;
        let user = |image| url(image, id, &format!(":keyring={id}.keyring"));
        for line in [
            format!("qemu-img create -f raw {} 1M", user("rbd/new")),
            format!("qemu-img convert -n -f qcow2 -O raw disk.qcow2 {}", user("rbd/disk")),
        ] {
            says_error(&sandbox.ceph_fails(&line)?, "Operation not permitted")?;
        }
    }
    Ok(())
}
