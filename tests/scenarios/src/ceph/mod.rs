//! Our client on real clusters, and tests that run in both directions.

mod admin;
mod cephx;
mod compression;
mod images;
mod load;
mod luks;
mod migration;
mod parity;
mod streams;
mod users;

use crate::bench::no_errors;
use crate::scenario::Scenario;
use crate::steps::{fio_without_errors, json, says};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::Release::{Pacific, Reef, Tentacle};
use onego_sandbox::{Daemon, Sandbox, Server, disk};
use std::fs;
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::on_real_ceph(
            "real-cluster",
            "images move between us and a real cluster, and verified loads run there",
            &[("import-export", images::import_export), ("verified-load", load::verified)],
        )
        .smoke()
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new(
            "osd-crash",
            "a real OSD is killed and starts again under a verified load",
            load::osd_crash,
        )
        .smoke()
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new(
            "tools-cephx",
            "Ceph's programs use our embedded cluster with keys, in every mode",
            cephx::server,
        )
        .smoke()
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::on_real_ceph(
            "migration",
            "images migrate in steps by `rbd` and by us while both use them",
            &[("migration", migration::moves)],
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::on_real_ceph(
            "migration-import",
            "images are filled from snapshots and files in steps by `rbd` and by us while both use them",
            &[("migration-import", migration::imports)],
        )
        .releases(&[Reef, Tentacle]),
        Scenario::on_real_ceph(
            "shared-images",
            "we and librbd write images and clones, alternately and concurrently",
            &[
                ("shared-images", images::shared),
                ("shared-clones", images::clones),
                ("owner-operations", images::owner_operations),
                ("verified-load-v1", load::verified_v1),
            ],
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::on_real_ceph(
            "formats",
            "our commands, streams and encrypted images equal Ceph's on a real cluster",
            &[("rbd-streams", streams::run), ("luks", luks::run), ("commands-beside", parity::on_real_ceph)],
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::on_embedded(
            "formats-embedded",
            "our commands and encrypted images equal Ceph's on our embedded cluster",
            "--memory 1G",
            &[("luks", luks::run), ("commands-beside", parity::on_ours)],
        )
        .releases(&[Pacific, Reef, Tentacle]),
        // 20.2 lists snapshots in groups and in the trash differently from 16.2, 18.2 and us.
        Scenario::on_real_ceph(
            "rbd-admin",
            "`rbd` and ours administer images of a real cluster with the same results",
            &[("rbd-admin", admin::run)],
        )
        .releases(&[Pacific, Reef]),
        Scenario::new("osd-restart", "a real OSD stops and starts under a verified load", load::osd_restart)
            .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "socket-failures",
            "no write is lost when connections break every few messages, ours or Ceph's",
            load::socket_failures,
        )
        .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "crush-changes",
            "our client follows changes of the CRUSH map under a verified load",
            load::crush_changes,
        )
        .releases(&[Tentacle]),
        Scenario::new(
            "cephx",
            "we use a real cluster with cephx in every mode and renew tickets",
            cephx::client,
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new(
            "cephx-keys",
            "users of a real cluster with keys of both types work in every mode",
            cephx::both_types_of_keys,
        )
        .releases(&[Tentacle]),
        Scenario::new(
            "tools-cephx-v1",
            "Ceph's programs use our embedded cluster with keys in protocol version 1",
            cephx::server_v1,
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new(
            "cephx-users",
            "users of a real cluster can do what their capabilities grant, and no more",
            users::on_real_ceph,
        )
        .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "tools-cephx-users",
            "`ceph auth` and the same users work on our embedded cluster",
            users::on_ours,
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new(
            "compression",
            "frames to and from a real OSD are compressed by every method",
            compression::on_real_ceph,
        )
        .releases(&[Reef, Tentacle]),
        Scenario::new(
            "compression-secure",
            "encrypted frames to and from a real OSD are compressed if both sides agree",
            compression::on_real_ceph_secure,
        )
        .releases(&[Reef, Tentacle]),
        Scenario::new(
            "tools-compression",
            "Ceph's programs that can compress do so on our embedded cluster",
            compression::on_ours,
        )
        .releases(&[Reef, Pacific, Tentacle]),
    ]
}

/// Time for the lock of an image to be taken and for OSDs to trim snapshots.
const PATIENCE: Duration = Duration::from_secs(90);

/// Compares a file of the sandbox with another, which is removed.
fn same_file(sandbox: &Sandbox, expected: &str, made: &str) -> Result<()> {
    disk::compare(&sandbox.path(expected), &sandbox.path(made))?;
    Ok(fs::remove_file(sandbox.path(made))?)
}

/// Checks that `onego` and `rbd`, with options for each, export an image as `expected`.
fn both_export(sandbox: &Sandbox, image: &str, expected: &str, [ours, theirs]: [&str; 2]) -> Result<()> {
    sandbox.onego(&format!("{ours} rbd export {image} ours.raw"))?;
    same_file(sandbox, expected, "ours.raw").with_context(|| format!("our export of {image}"))?;
    sandbox.ceph(&format!("rbd export {image} theirs.raw {theirs}"))?;
    same_file(sandbox, expected, "theirs.raw").with_context(|| format!("Ceph's export of {image}"))
}

/// Imports `disk.raw` by `onego` with these options, exports it by both sides, and removes the image.
fn round_trip(sandbox: &Sandbox, options: &str) -> Result<()> {
    sandbox.onego(&format!("{options} rbd import disk.raw rbd/disk"))?;
    both_export(sandbox, "rbd/disk", "disk.raw", [options, ""])?;
    sandbox.onego(&format!("{options} rbd rm rbd/disk")).map(drop)
}

/// Runs `onego bench` with these options of the client and the benchmark, verifying what it reads.
fn verified_load(sandbox: &Sandbox, options: &str, load: &str) -> Result<()> {
    sandbox.onego(&format!(
        "{options} bench rbd --cluster ceph.conf --rw randrw {load} --verify --json rows.json"
    ))?;
    no_errors(&sandbox.path("rows.json"))?;
    Ok(fs::remove_file(sandbox.path("rows.json"))?)
}

/// Checks that a line of `onego` fails with a message that contains `reason`, and returns the message.
fn onego_fails(sandbox: &Sandbox, line: &str, reason: &str) -> Result<String> {
    let failed = sandbox.onego_fails(line)?;
    let message = String::from_utf8_lossy(&failed.stderr).into_owned();
    says(&message, reason).with_context(|| format!("`onego {line}`"))?;
    Ok(message)
}

/// Checks that `rbd` accepts the object map of an image or a snapshot.
fn map_is_valid(sandbox: &Sandbox, image: &str) -> Result<()> {
    sandbox.ceph(&format!("rbd object-map check --no-progress {image}"))?;
    let info = json(&sandbox.ceph(&format!("rbd info --format json {image}"))?)?;
    let is_valid = info["flags"].as_array().is_some_and(Vec::is_empty);
    ensure!(is_valid, "{image} has an invalid object map: {info}");
    Ok(())
}

/// Returns a line of fio that verifies an image through our NBD server and writes `NAME.json`.
fn fio_on_nbd(name: &str, image: &str, options: &str) -> String {
    format!(
        "fio --name={name} --ioengine=nbd --uri=nbd://127.0.0.1:10809/{image} --rw=randrw --bs=16k --iodepth=8 \
         --verify=crc32c --verify_fatal=1 --output-format=json --output={name}.json {options}"
    )
}

/// Checks the report of such a fio and removes it.
fn check_report(sandbox: &Sandbox, name: &str) -> Result<()> {
    let report = format!("{name}.json");
    fio_without_errors(&sandbox.read(&report)?).with_context(|| report.clone())?;
    Ok(fs::remove_file(sandbox.path(report))?)
}

/// An image that fio writes through our NBD server, which holds the image's lock.
struct BusyImage<'a> {
    sandbox: &'a Sandbox,
    image: &'a str,
    server: Server,
    fio: Daemon,
    owner: String,
}

impl<'a> BusyImage<'a> {
    /// Starts a load of `iops` reads and as many writes a second in the part from 32 MiB to 56 MiB.
    fn start(sandbox: &'a Sandbox, image: &'a str, iops: u32) -> Result<Self> {
        let server = Server::nbd(sandbox, &format!("rbd:{image}"))?;
        let options = format!("--offset=32m --size=24m --loops=12 --rate_iops={iops},{iops}");
        let fio = fio_on_nbd("load", image, &options);
        let mut fio = Daemon::spawn("fio", sandbox.ceph_daemon(&fio), &sandbox.path("fio.out"))?;
        let owner = wait_for_lock(sandbox, &mut fio, image)?;
        Ok(Self { sandbox, image, server, fio, owner })
    }

    /// Checks that our server still holds the lock of the image, now perhaps under another name.
    fn check_owner(&self, image: &str) -> Result<()> {
        let owner = self.sandbox.ceph(&format!("rbd lock ls {image}"))?;
        ensure!(owner == self.owner, "another client holds the lock of {}:\n{owner}", self.image);
        Ok(())
    }

    /// Waits for the load, which must still run, and returns the server.
    fn finish(mut self) -> Result<Server> {
        self.fio.check_alive()?;
        self.fio.wait()?;
        check_report(self.sandbox, "load")?;
        Ok(self.server)
    }
}

/// Waits until a client holds the exclusive lock of an image, while `user` runs, and returns the list of locks.
fn wait_for_lock(sandbox: &Sandbox, user: &mut Daemon, image: &str) -> Result<String> {
    let lock = || sandbox.ceph(&format!("rbd lock ls {image}"));
    user.wait_until("lock", PATIENCE, || lock().is_ok_and(|said| said.contains("auto ")))?;
    lock()
}
