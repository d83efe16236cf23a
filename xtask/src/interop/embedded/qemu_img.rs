//! QEMU's own driver for Ceph block devices, which goes through librbd, against our embedded cluster.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::{json, says};
use anyhow::{Result, ensure};
use std::fs;

/// Without keys, then with keys, with checksums and encrypted.
pub(crate) fn modes(stage: &Stage) -> Result<()> {
    disk::make(&stage.path("disk.raw"), 6)?;
    stage.ceph("qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2")?;
    {
        let _cluster = Embedded::start(stage, "--memory 1G")?;
        images(stage, "crc")?;
    }
    let _cluster = Embedded::start(stage, "--auth cephx --memory 1G")?;
    for mode in ["crc", "secure"] {
        images(stage, mode)?;
    }
    without_files(stage)?;
    refused(stage)
}

/// How `qemu-img` is told of an image, for a user and with more of Ceph's options.
fn url(image: &str, user: &str, options: &str) -> String {
    format!("rbd:{image}:conf=ceph.conf:id={user}{options}")
}

/// The life of two images: one made from a qcow2, one made empty and written to.
fn images(stage: &Stage, mode: &str) -> Result<()> {
    let modes = format!(":ms_client_mode={mode}:ms_mon_client_mode={mode}");
    let disk = url("rbd/disk", "admin", &modes);
    stage.ceph(&format!("qemu-img convert -f qcow2 -O raw disk.qcow2 {disk}"))?;
    says(&stage.ceph(&format!("qemu-img compare -f qcow2 -F raw disk.qcow2 {disk}"))?, "identical")?;
    stage.ceph(&format!("qemu-img convert -f raw -O raw {disk} theirs.raw"))?;
    stage.onego(&format!("--conf ceph.conf --ms-mode {mode} rbd export rbd/disk ours.raw"))?;
    for exported in ["theirs.raw", "ours.raw"] {
        disk::compare(&stage.path("disk.raw"), &stage.path(exported))?;
        fs::remove_file(stage.path(exported))?;
    }

    let empty = url("rbd/empty", "admin", &modes);
    stage.ceph(&format!("qemu-img create -f raw {empty} 64M"))?;
    stage.ceph(&format!("qemu-img resize -f raw {empty} 96M"))?;
    let info = json(&stage.ceph(&format!("qemu-img info -f raw --output json {empty}"))?)?;
    ensure!(info["virtual-size"] == 96 << 20, "`qemu-img info` says {info}");
    says(&stage.onego("--conf ceph.conf rbd info rbd/empty")?, "96 MiB")?;
    written(stage, &empty)?;

    stage.ceph(&format!("qemu-img snapshot -c first {disk}"))?;
    says(&stage.ceph(&format!("qemu-img snapshot -l {disk}"))?, "first")?;
    for step in ["-a", "-d"] {
        stage.ceph(&format!("qemu-img snapshot {step} first {disk}"))?;
    }
    for image in ["disk", "empty"] {
        stage.onego(&format!("--conf ceph.conf rbd rm rbd/{image}"))?;
    }
    Ok(())
}

/// The requests of a guest's disk, over the borders of objects; each read is compared by `qemu-io`.
fn written(stage: &Stage, image: &str) -> Result<()> {
    let requests = [
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
    let mut words = vec!["qemu-io", "-f", "raw"];
    words.extend(requests.iter().flat_map(|request| ["-c", request]));
    words.push(image);
    let said = stage.ceph_words(&words)?;
    ensure!(!said.contains("Pattern verification failed"), "qemu-io read something else:\n{said}");
    Ok(())
}

/// As libvirt names an image: with the monitor's address and a key, without ceph.conf and keyring.
fn without_files(stage: &Stage) -> Result<()> {
    let disk = url("rbd/disk", "admin", "");
    stage.ceph(&format!("qemu-img convert -f qcow2 -O raw disk.qcow2 {disk}"))?;
    let key = stage.ceph("ceph auth get-key client.admin")?;
    stage.ceph(&format!(
        "env --unset CEPH_CONF qemu-img convert --object secret,id=key,format=base64,data={} --image-opts \
         driver=rbd,pool=rbd,image=disk,user=admin,server.0.host={ADDRESS},server.0.port=3300,\
         auth-client-required.0=cephx,key-secret=key -O raw theirs.raw",
        key.trim()
    ))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("theirs.raw"))
}

/// A user who may do nothing in the pool, and one who may not write there, get EPERM.
fn refused(stage: &Stage) -> Result<()> {
    for (id, osd) in [("stranger", "profile rbd pool=other"), ("reader", "profile rbd-read-only pool=rbd")] {
        let name = format!("client.{id}");
        let keyring =
            stage.ceph_words(&["ceph", "auth", "get-or-create", &name, "mon", "profile rbd", "osd", osd])?;
        fs::write(stage.path(&format!("{id}.keyring")), keyring)?;
        let user = |image| url(image, id, &format!(":keyring={id}.keyring"));
        for line in [
            format!("qemu-img create -f raw {} 1M", user("rbd/new")),
            format!("qemu-img convert -n -f qcow2 -O raw disk.qcow2 {}", user("rbd/disk")),
        ] {
            let said = stage.ceph_fails(&line)?;
            says(&String::from_utf8_lossy(&said.stderr), "Operation not permitted")?;
        }
    }
    Ok(())
}
