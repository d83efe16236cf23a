//! libvirt has a storage pool of images.

use super::on_library::{PATIENCE, Run};
use crate::cluster::ADDRESS;
use crate::interop::disk;
use crate::interop::steps::says;
use anyhow::{Result, ensure};
use std::fs;

/// Sockets are below /run, and nobody is asked for more than being root.
const CONF: &str = "\
unix_sock_dir = \"/run/libvirt\"
auth_unix_rw = \"none\"
auth_unix_ro = \"none\"
log_outputs = \"2:stderr\"
";

/// Where it keeps what it knows: the system's own is not touched.
const FOLDERS: [&str; 4] = ["/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt"];

/// What is removed of the sizes and features that virsh prints.
fn words(said: &str) -> Vec<&str> {
    said.split_whitespace().collect()
}

/// `virsh` makes, changes, clones, wipes and removes images.
pub(super) fn manages(run: Run<'_>) -> Result<()> {
    let stage = run.stage;
    for folder in FOLDERS {
        stage.ceph(&format!("mount -t tmpfs tmpfs {folder}"))?;
    }
    fs::write(stage.path("libvirtd.conf"), CONF)?;
    fs::write(stage.path("pool.xml"), pool())?;
    let mut server = run.daemon("libvirtd", "libvirtd -f libvirtd.conf")?;
    let virsh = |line: &str| stage.ceph(&format!("virsh -q -c storage:///system {line}"));
    let refused = |line: &str| -> Result<()> {
        stage.ceph_fails(&format!("virsh -q -c storage:///system {line}")).map(drop)
    };
    server.wait_until("an answer to virsh", PATIENCE, || virsh("pool-list --all").is_ok())?;

    virsh("pool-define pool.xml")?;
    virsh("pool-start images")?;
    run.has_loaded(&server)?;
    says(&virsh("pool-info images")?, "running")?;
    ensure!(virsh("vol-list images")?.is_empty(), "there are images already");
    virsh("vol-create-as images first 64M")?;
    refused("vol-create-as images first 64M")?;
    virsh("vol-create-as images second 10M --allocation 0")?;
    stage.onego("--conf ceph.conf rbd create rbd/outside --size 16M")?;
    virsh("pool-refresh images")?;
    let listed = virsh("vol-list images")?;
    let names = ["first", "rbd/first", "outside", "rbd/outside", "second", "rbd/second"];
    ensure!(words(&listed) == names, "`vol-list` says {listed}");
    virsh("vol-resize --pool images first 96M")?;
    says(&virsh("vol-info --pool images first")?, "96.00 MiB")?;
    says(&virsh("vol-dumpxml --pool images first")?, "<capacity unit='bytes'>100663296</capacity>")?;
    says(&stage.onego("--conf ceph.conf rbd info rbd/first")?, "size 96 MiB in 24 objects")?;
    clones(run, &virsh, &refused)?;

    virsh("vol-wipe --pool images first")?;
    only_zeros(run, "first", 96 << 20)?;
    stage.ceph("rbd bench --io-type write --io-size 4K --io-total 1M rbd/outside")?;
    virsh("vol-wipe --pool images outside --algorithm trim")?;
    only_zeros(run, "outside", 16 << 20)?;
    // libvirt has neither for images.
    refused("vol-upload --pool images first disk.raw")?;
    refused("vol-download --pool images first down.raw")?;
    refused("vol-resize --pool images first 64M --shrink")?;

    // A snapshot that a clone is made of holds its image.
    refused("vol-delete --pool images first")?;
    for name in ["copy", "second-copy"] {
        virsh(&format!("vol-delete --pool images {name}"))?;
    }
    virsh("vol-delete --pool images first --delete-snapshots")?;
    for name in ["second", "outside"] {
        virsh(&format!("vol-delete --pool images {name}"))?;
    }
    ensure!(virsh("vol-list images")?.is_empty(), "images are left");
    virsh("pool-destroy images")?;
    virsh("pool-undefine images")?;
    server.stop()?;
    for folder in FOLDERS {
        stage.ceph(&format!("umount {folder}"))?;
    }
    Ok(())
}

/// Clones are made of a snapshot that libvirt makes and protects, and finds again by that nothing has changed since.
fn clones(
    run: Run<'_>,
    virsh: &dyn Fn(&str) -> Result<String>,
    refused: &dyn Fn(&str) -> Result<()>,
) -> Result<()> {
    let stage = run.stage;
    virsh("vol-clone --pool images first copy")?;
    virsh("vol-clone --pool images first second-copy")?;
    let snapshots = stage.ceph("rbd snap ls rbd/first --format json")?;
    let snapshots = crate::interop::steps::json(&snapshots)?;
    let count = snapshots.as_array().map(Vec::len);
    ensure!(count == Some(1) && snapshots[0]["protected"] == "true", "the snapshots are {snapshots}");
    for copy in ["copy", "second-copy"] {
        says(&stage.onego(&format!("--conf ceph.conf rbd info rbd/{copy}"))?, "parent: rbd/first@libvirt-")?;
    }
    stage.ceph("rbd bench --io-type write --io-size 4K --io-total 1M rbd/first")?;
    // It takes the word of its callback that something has changed for an error of the call.
    refused("vol-clone --pool images first third-copy")
}

/// An error unless an image has that size, and zeros alone in it.
fn only_zeros(run: Run<'_>, image: &str, size: u64) -> Result<()> {
    let (stage, name) = (run.stage, format!("{image}.raw"));
    stage.ceph(&format!("rbd export --no-progress rbd/{image} {name}"))?;
    fs::File::create(stage.path("zeros.raw"))?.set_len(size)?;
    disk::compare(&stage.path("zeros.raw"), &stage.path(&name))?;
    Ok(fs::remove_file(stage.path(&name))?)
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
