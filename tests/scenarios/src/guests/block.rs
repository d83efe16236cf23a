//! Block devices that our servers and our library provide to a guest's kernel.

use super::{krbd, script};
use crate::capi::library;
use crate::steps::says;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Boot, Disk, Sandbox, Server, TCMU, UBLK};
use std::thread::sleep;
use std::time::Duration;

/// Servers of the virtual disk that are killed under load.
const KILLED: usize = 3;

/// Time each of them serves before that.
const LIFE: Duration = Duration::from_secs(2);

/// Boots one guest with devices of every sort, each on an image of its own.
///
/// The kernel is the newer one, because the older lacks ublk. Its NBD client has not changed between them.
pub(super) fn all(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    let conf = sandbox.read("ceph.conf")?;
    // The lock of a killed server is free sooner.
    sandbox.write("ceph.conf", conf + "osd_client_watch_timeout = 10\n")?;
    for (image, size) in [("krbd", 128), ("nbd", 128), ("ublk", 128), ("other", 16), ("disk", 256)] {
        sandbox.onego(&format!("-c ceph.conf rbd create rbd/{image} --size {size}M"))?;
    }
    let line = format!("cluster start --listen {ADDRESS}:3301 --conf-dir other");
    let _other = Server::start(sandbox, "other-cluster", &line)?;
    sandbox.onego("-c other/ceph.conf rbd create rbd/ublk --size 32M")?;
    let nbd = Server::nbd(sandbox, "rbd:nbd")?;
    let serve = || Server::vhost_user(sandbox, "rbd:disk");
    let mut disk = serve()?;
    let boot = Boot::new(sandbox, &UBLK)?.programs(&["fio", "mke2fs", "nbd-client"]).onego();
    let boot = boot.disk(Disk::VhostUser("disk.sock"), 2);
    let boot = boot
        .check("nbd", &script("", include_str!("nbd.sh")))
        .check("ublk", &script("", include_str!("ublk.sh")))
        .check("disk", &script("", include_str!("disk.sh")));
    let mut guest = krbd::add_checks(boot, krbd::FEW_MODES, "").start("guest")?;
    krbd::check(&mut guest, krbd::FEW_MODES)?;
    guest.check("nbd")?;
    nbd.stop()?;
    guest.check("ublk")?;
    guest.begin("disk")?;
    guest.wait_for("waits: to grow")?;
    sandbox.onego("-c ceph.conf rbd resize rbd/disk --size 300M")?;
    guest.wait_for("begins: load")?;
    for _ in 0..KILLED {
        sleep(LIFE);
        drop(disk);
        disk = serve()?;
    }
    sandbox.onego("-c ceph.conf rbd resize rbd/disk --size 304M")?;
    guest.end().context("check disk")?;
    guest.power_off()?;
    disk.stop()?;
    ensure!(!sandbox.path("disk.sock").exists(), "the socket is left");
    Ok(())
}

/// Makes an image a SCSI disk of the guest's kernel, whose commands tcmu-runner carries out with our library.
pub(super) fn scsi(sandbox: &Sandbox) -> Result<()> {
    library::prepare(sandbox)?;
    let _cluster = Server::cluster(sandbox, "")?;
    sandbox.onego("-c ceph.conf rbd create rbd/disk --size 64M")?;
    let library = sandbox.path("onego/lib/librados.so.2");
    let conf = format!("cat > /tmp/ceph.conf <<END\n{}\nEND", sandbox.read("ceph.conf")?);
    let boot = Boot::new(sandbox, &TCMU)?
        .programs(&["tcmu-runner", "depmod", "fio", "mke2fs", &library.to_string_lossy()])
        .check("disk", &script(&conf, include_str!("tcmu.sh")));
    let said = boot.start("guest")?.check("disk")?;
    let sum = said.lines().find(|line| line.starts_with("sum: ")).context("the guest prints no sum")?;
    sandbox.onego("-c ceph.conf rbd export rbd/disk disk.raw --no-progress")?;
    says(&format!("sum: {}", sandbox.tool("sha256sum disk.raw")?), &format!("{sum} "))
}
