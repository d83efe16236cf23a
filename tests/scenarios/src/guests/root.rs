//! Guests that boot from a root file system on an image.

use super::script;
use crate::capi::library;
use crate::steps::says;
use anyhow::{Context as _, Result};
use onego_sandbox::{Boot, Disk, Sandbox, Server, VIRTIO_BLK};
use std::fs;

/// Bytes of the root file system.
const SIZE: u64 = 256 << 20;

/// URI of the image for QEMU's programs.
const IMAGE: &str = "rbd:rbd/root:conf=ceph.conf";

/// Boots guests by servers: QEMU as NBD client, and our vhost-user server, which shares the guest's memory.
pub(super) fn by_servers(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    let nbd = Disk::Nbd { socket: "nbd.sock", export: "rbd/root" };
    boots_from(sandbox, nbd, || Server::nbd(sandbox, "rbd:root --socket nbd.sock")).context("NBD")?;
    let vhost_user = || Server::vhost_user(sandbox, "rbd:root");
    boots_from(sandbox, Disk::VhostUser("disk.sock"), vhost_user).context("vhost-user")
}

fn boots_from(sandbox: &Sandbox, disk: Disk, serve: impl FnOnce() -> Result<Server>) -> Result<()> {
    let boot = with_root(sandbox, disk)?;
    sandbox.onego("-c ceph.conf cp root.raw rbd:rbd/root")?;
    let server = serve()?;
    run(&boot, "first")?;
    run(&boot, "again")?;
    server.stop()?;
    sandbox.onego("-c ceph.conf rbd rm rbd/root")?;
    Ok(fs::remove_file(sandbox.path("root.raw"))?)
}

/// QEMU uses our librbd, also for snapshots of the image and the return to them.
pub(super) fn by_librbd(sandbox: &Sandbox) -> Result<()> {
    library::prepare(sandbox)?;
    let _cluster = Server::cluster(sandbox, "")?;
    let boot = with_root(sandbox, Disk::Rbd { library: "onego/lib", image: "root" })?;
    let qemu_img =
        |line: &str| sandbox.ceph(&format!("env {} qemu-img {line}", library::environment(sandbox)));
    qemu_img(&format!("convert -f raw -O raw root.raw {IMAGE}"))?;
    qemu_img(&format!("snapshot -c fresh {IMAGE}"))?;
    run(&boot, "first")?;
    qemu_img(&format!("snapshot -c used {IMAGE}"))?;
    run(&boot, "again")?;
    says(&qemu_img(&format!("snapshot -l {IMAGE}"))?, "used")?;
    // At this snapshot no guest has written anything.
    qemu_img(&format!("snapshot -a fresh {IMAGE}"))?;
    run(&boot, "first")?;
    qemu_img(&format!("snapshot -a used {IMAGE}"))?;
    run(&boot, "again")?;
    ["fresh", "used"].iter().try_for_each(|name| qemu_img(&format!("snapshot -d {name} {IMAGE}")).map(drop))
}

/// Makes the root file system in `root.raw`, from where the caller copies it to the disk.
fn with_root(sandbox: &Sandbox, disk: Disk) -> Result<Boot<'_>> {
    let part = |part| script(&format!("PART={part}"), include_str!("root.sh"));
    let boot = Boot::new(sandbox, &VIRTIO_BLK)?.programs(&["fio"]).disk(disk, 2);
    let boot = boot.check("first", &part("first")).check("again", &part("again"));
    boot.make_root("root.raw", SIZE)?;
    Ok(boot)
}

/// Boots a guest for one check: `first` on a new file system, or `again` on one that has been through it.
fn run(boot: &Boot<'_>, check: &str) -> Result<()> {
    let mut guest = boot.start_from_disk("guest")?;
    guest.check(check)?;
    guest.power_off()
}
