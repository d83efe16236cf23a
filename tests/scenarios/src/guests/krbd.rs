//! krbd, the kernel's client for RBD images.

use super::script;
use crate::ceph::images::both_have;
use crate::ceph::map_is_valid;
use crate::steps::{ensure_pool, fio_without_errors, says};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::disk::Random;
use onego_sandbox::{Boot, Daemon, Guest, RBD, Sandbox, Server};
use std::fs;

/// Modes: the monitor's port and the client's options.
const MODES: &str = "3300,ms_mode=crc 3300,ms_mode=prefer-crc 6789,ms_mode=legacy 6789,ms_mode=legacy,nocrc";

/// One mode of each messenger protocol.
pub(super) const FEW_MODES: &str = "3300,ms_mode=crc 6789,ms_mode=legacy";

/// Modes for a cluster with cephx: with checksums, encryption and signatures.
const MODES_WITH_KEY: &str = "3300,ms_mode=crc 3300,ms_mode=prefer-secure 3300,ms_mode=secure \
    6789,ms_mode=legacy 6789,ms_mode=legacy,nocrc";

/// Adds a check for each mode, in which a file system and the device keep what is written to them.
pub(super) fn add_checks<'a>(boot: Boot<'a>, modes: &str, more: &str) -> Boot<'a> {
    modes.split_whitespace().fold(boot, |boot, mode| {
        boot.check(mode, &script(&format!("MODE={mode}{more}"), include_str!("krbd.sh")))
    })
}

/// Runs these checks.
pub(super) fn check(guest: &mut Guest, modes: &str) -> Result<()> {
    modes.split_whitespace().try_for_each(|mode| guest.check(mode).map(drop))
}

/// Maps an image in every mode without keys.
pub(super) fn modes(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    maps(sandbox, MODES, "")
}

/// Maps an image in every mode with cephx.
pub(super) fn modes_with_key(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "--auth cephx")?;
    let keyring = sandbox.read("ceph.client.admin.keyring")?;
    let key = keyring.lines().find_map(|line| line.trim().strip_prefix("key = "));
    maps(sandbox, MODES_WITH_KEY, &format!(",secret={}", key.context("the keyring has no key")?))
}

fn maps(sandbox: &Sandbox, modes: &str, more: &str) -> Result<()> {
    sandbox.onego("-c ceph.conf rbd create rbd/krbd --size 128M")?;
    let boot = Boot::new(sandbox, &RBD)?.programs(&["fio", "mke2fs"]);
    check(&mut add_checks(boot, modes, more).start("guest")?, modes)
}

/// URI of the image on our NBD server.
const URI: &str = "nbd://127.0.0.1:10809/rbd/disk";

/// Size of the shared image, and of the half that the guest's fio writes to.
const SIZE: usize = 32 << 20;
const HALF: usize = SIZE / 2;

/// Shares a clone on our cluster.
pub(super) fn shared_on_ours(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    shared(sandbox)
}

/// The kernel and we write a clone with all features alternately and at the same time. Each side requests the lock from
/// the other, and takes it from an owner that died.
pub(super) fn shared(sandbox: &Sandbox) -> Result<()> {
    ensure_pool(sandbox)?;
    // A part of the parent is a hole.
    sandbox.write("parent.raw", [Random(1).bytes(HALF + HALF / 2), vec![0; HALF / 2]].concat())?;
    sandbox.write("other.raw", Random(2).bytes(SIZE))?;
    for line in [
        "rbd import parent.raw rbd/parent",
        "rbd snap create rbd/parent@base",
        "rbd snap protect rbd/parent@base",
        "rbd clone rbd/parent@base rbd/disk",
        "rbd create --size 1M --image-feature layering rbd/bell",
    ] {
        sandbox.ceph(line)?;
    }
    let info = sandbox.ceph("rbd info rbd/disk")?;
    ["exclusive-lock", "object-map", "fast-diff", "parent:"].iter().try_for_each(|word| says(&info, word))?;

    let variables = format!("BEFORE={}\nTHEIRS={}", sum(sandbox, "parent.raw")?, sum(sandbox, "other.raw")?);
    let boot = Boot::new(sandbox, &RBD)?.programs(&["fio"]);
    let mut guest =
        boot.check("turns", &script(&variables, include_str!("krbd_shared.sh"))).start("guest")?;
    guest.begin("turns")?;
    kernel_wrote(sandbox, &mut guest, 1)?;
    // Our server requests the lock from the kernel and keeps it.
    let server = Server::nbd(sandbox, "rbd:rbd/disk")?;
    write_by_ours(sandbox)?;
    both_have(sandbox, "rbd/disk", "other.raw")?;
    // The check of the object map has taken the lock.
    write_by_ours(sandbox)?;
    ring(sandbox, 2)?;
    kernel_wrote(sandbox, &mut guest, 2)?;
    at_once(sandbox, &mut guest)?;
    // Ours is killed while it owns the lock.
    write_by_ours(sandbox)?;
    drop(server);
    ring(sandbox, 4)?;
    kernel_wrote(sandbox, &mut guest, 4)?;
    says(&sandbox.ceph("ceph osd blocklist ls")?, "/")?;

    // The guest is switched off while it writes: the next writer takes its lock, and none of its writes comes later.
    ring(sandbox, 5)?;
    guest.wait_for("done 5")?;
    owned(sandbox)?;
    drop(guest);
    sandbox.onego("--conf ceph.conf cp --in-place other.raw rbd:rbd/disk")?;
    both_have(sandbox, "rbd/disk", "other.raw")?;
    sandbox.ceph("rbd rm rbd/disk")?;
    sandbox.ceph("rbd snap unprotect rbd/parent@base")?;
    sandbox.ceph("rbd snap purge rbd/parent")?;
    sandbox.ceph("rbd rm rbd/parent").map(drop)
}

fn sum(sandbox: &Sandbox, file: &str) -> Result<String> {
    let said = sandbox.tool(&format!("sha256sum {file}"))?;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}

/// Starts the guest's next turn.
fn ring(sandbox: &Sandbox, turn: u32) -> Result<()> {
    sandbox.write("bell.raw", format!("{:<4096}", format!("turn {turn}\n")))?;
    sandbox.onego("--conf ceph.conf cp --in-place bell.raw rbd:rbd/bell").map(drop)
}

/// Waits until the kernel has written; we and `rbd` read what it reads.
fn kernel_wrote(sandbox: &Sandbox, guest: &mut Guest, turn: u32) -> Result<()> {
    guest.wait_for(&format!("done {turn}"))?;
    owned(sandbox)?;
    sandbox.onego("--conf ceph.conf rbd export rbd/disk seen.raw")?;
    let line = format!("sum {turn}: {}", sum(sandbox, "seen.raw")?);
    ensure!(guest.has_said(&line), "the kernel reads something else than `{line}`");
    both_have(sandbox, "rbd/disk", "seen.raw")?;
    Ok(fs::remove_file(sandbox.path("seen.raw"))?)
}

fn owned(sandbox: &Sandbox) -> Result<()> {
    says(&sandbox.ceph("rbd lock ls rbd/disk")?, "auto ")
}

/// Writes the whole image by our server, which then owns the lock.
fn write_by_ours(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph(&format!("nbdcopy other.raw {URI}"))?;
    owned(sandbox)
}

/// Both write, each to its half, and verify.
fn at_once(sandbox: &Sandbox, guest: &mut Guest) -> Result<()> {
    let line = format!(
        "fio --name=ours --ioengine=nbd --uri={URI} --rw=randrw --bs=16k --offset={HALF} --size=8m --loops=4 --iodepth=8 \
         --verify=crc32c --verify_fatal=1 --output-format=json --output=ours.json"
    );
    let ours = Daemon::spawn("fio by us", sandbox.ceph_daemon(&line), &sandbox.path("fio.out"))?;
    ring(sandbox, 3)?;
    guest.wait_for("done 3")?;
    ours.wait()?;
    fio_without_errors(&sandbox.read("ours.json")?)?;
    map_is_valid(sandbox, "rbd/disk")
}
