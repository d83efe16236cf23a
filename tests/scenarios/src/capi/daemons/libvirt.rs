//! libvirt manages a storage pool of images.

use super::{On, PATIENCE};
use crate::steps::{json, says};
use anyhow::{Result, ensure};
use onego_sandbox::{ADDRESS, Sandbox, disk};
use std::fs::{self, File};

const CONF: &str = "\
unix_sock_dir = \"/run/libvirt\"
auth_unix_rw = \"none\"
auth_unix_ro = \"none\"
log_outputs = \"2:stderr\"
";

/// Names the socket, because the default is below `/var/run`.
const VIRSH: &str = "virsh -q -c storage:///system?socket=/run/libvirt/libvirt-sock";

/// Folders of libvirt's state, which become private to the sandbox.
const FOLDERS: [&str; 4] = ["/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt"];

/// Creates, changes, clones, wipes and removes images by `virsh`.
pub(super) fn manages(on: On<'_>) -> Result<()> {
    let sandbox = on.sandbox;
    for folder in FOLDERS {
        sandbox.ceph(&format!("mount -t tmpfs tmpfs {folder}"))?;
    }
    sandbox.write("libvirtd.conf", CONF)?;
    sandbox.write("pool.xml", pool())?;
    let mut server = on.daemon("libvirtd", "libvirtd -f libvirtd.conf")?;
    let virsh = |line: &str| sandbox.ceph(&format!("{VIRSH} {line}"));
    server.wait_until("answer to virsh", PATIENCE, || virsh("pool-list --all").is_ok())?;

    virsh("pool-define pool.xml")?;
    virsh("pool-start images")?;
    on.has_loaded(&server)?;
    says(&virsh("pool-info images")?, "running")?;
    ensure!(virsh("vol-list images")?.is_empty(), "the pool has images from the start");
    virsh("vol-create-as images first 64M")?;
    refused(sandbox, "vol-create-as images first 64M")?;
    virsh("vol-create-as images second 10M --allocation 0")?;
    sandbox.onego("--conf ceph.conf rbd create rbd/outside --size 16M")?;
    virsh("pool-refresh images")?;
    let listed = virsh("vol-list images")?;
    let names = ["first", "rbd/first", "outside", "rbd/outside", "second", "rbd/second"];
    ensure!(listed.split_whitespace().eq(names), "`vol-list` prints {listed}");
    virsh("vol-resize --pool images first 96M")?;
    says(&virsh("vol-info --pool images first")?, "96.00 MiB")?;
    says(&virsh("vol-dumpxml --pool images first")?, "<capacity unit='bytes'>100663296</capacity>")?;
    says(&sandbox.onego("--conf ceph.conf rbd info rbd/first")?, "size 96 MiB in 24 objects")?;

    // libvirt clones a snapshot that it creates and protects, and reuses it as long as nothing has changed since.
    virsh("vol-clone --pool images first copy")?;
    virsh("vol-clone --pool images first second-copy")?;
    let snapshots = json(&sandbox.ceph("rbd snap ls rbd/first --format json")?)?;
    let count = snapshots.as_array().map(Vec::len);
    ensure!(count == Some(1) && snapshots[0]["protected"] == "true", "the snapshots are {snapshots}");
    for copy in ["copy", "second-copy"] {
        says(
            &sandbox.onego(&format!("--conf ceph.conf rbd info rbd/{copy}"))?,
            "parent: rbd/first@libvirt-",
        )?;
    }
    sandbox.ceph("rbd bench --io-type write --io-size 4K --io-total 1M rbd/first")?;
    // Its callback reports the change by a value that `rbd_diff_iterate2` returns and libvirt takes for an error.
    refused(sandbox, "vol-clone --pool images first third-copy")?;

    virsh("vol-wipe --pool images first")?;
    is_zero(sandbox, "first", 96 << 20)?;
    sandbox.ceph("rbd bench --io-type write --io-size 4K --io-total 1M rbd/outside")?;
    virsh("vol-wipe --pool images outside --algorithm trim")?;
    is_zero(sandbox, "outside", 16 << 20)?;
    // libvirt supports neither transfers nor shrinking of images, and a clone's snapshot holds its image.
    for line in [
        "vol-upload --pool images first disk.raw",
        "vol-download --pool images first down.raw",
        "vol-resize --pool images first 64M --shrink",
        "vol-delete --pool images first",
    ] {
        refused(sandbox, line)?;
    }
    for volume in ["copy", "second-copy", "first --delete-snapshots", "second", "outside"] {
        virsh(&format!("vol-delete --pool images {volume}"))?;
    }
    ensure!(virsh("vol-list images")?.is_empty(), "images are left");
    virsh("pool-destroy images")?;
    virsh("pool-undefine images")?;
    server.stop()?;
    FOLDERS.iter().try_for_each(|folder| sandbox.ceph(&format!("umount {folder}")).map(drop))
}

fn refused(sandbox: &Sandbox, line: &str) -> Result<()> {
    sandbox.ceph_fails(&format!("{VIRSH} {line}")).map(drop)
}

/// Fails unless an image consists of `size` zeros.
fn is_zero(sandbox: &Sandbox, image: &str, size: u64) -> Result<()> {
    let copy = sandbox.path(format!("{image}.raw"));
    sandbox.ceph(&format!("rbd export --no-progress rbd/{image} {image}.raw"))?;
    File::create(sandbox.path("zeros.raw"))?.set_len(size)?;
    disk::compare(&sandbox.path("zeros.raw"), &copy)?;
    Ok(fs::remove_file(copy)?)
}

fn pool() -> String {
    format!(
        "<pool type='rbd'>
  <name>images</name>
  <source>
    <host name='{ADDRESS}' port='3300'/>
    <name>rbd</name>
  </source>
</pool>
"
    )
}
