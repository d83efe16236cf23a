//! Our client on real clusters, and tests that run in both directions.

mod admin;
mod cephx;
mod compression;
pub(crate) mod images;
mod load;
mod luks;
mod migration;
mod parity;
mod streams;
mod users;

use crate::bench::no_errors;
use crate::scenario::{Run, Scenario};
use crate::steps::{fio_without_errors, json, says};
use anyhow::{Context as _, Result, bail, ensure};
use onego_sandbox::Release::{self, Pacific, Reef, Tentacle};
use onego_sandbox::{Daemon, Sandbox, Server, disk};
use std::fs;
use std::time::Duration;

const ALL: &[Release] = &[Pacific, Reef, Tentacle];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let new = Scenario::new;
    let (on_real_ceph, on_embedded) = (Scenario::on_real_ceph, Scenario::on_embedded);
    let one_on_real = |name, about, run: Run| on_real_ceph(name, about, &[(name, run)]);
    let sharing: &[(_, Run)] = &[
        ("shared-images", images::shared),
        ("shared-clones", images::clones),
        ("owner-operations", images::owner_operations),
        ("verified-load-v1", load::verified_v1),
    ];
    let formats: &[(_, Run)] =
        &[("rbd-streams", streams::run), ("luks", luks::run), ("commands-beside", parity::on_real_ceph)];
    let cluster: &[(_, Run)] = &[("import-export", images::import_export), ("verified-load", load::verified)];
    let embedded: &[(_, Run)] = &[("luks", luks::run), ("commands-beside", parity::on_ours)];
    let smoke = [
        on_real_ceph("real-cluster", "images move to and from a real cluster; a load verifies data", cluster),
        new("osd-crash", "a real OSD is killed and restarted under a verified load", load::osd_crash),
        new("tools-cephx", "Ceph's programs use our cluster with keys, in every mode", cephx::server),
    ];
    let all = [
        one_on_real("migration", "images in use migrate in steps by `rbd` and by us", migration::moves),
        on_real_ceph("shared-images", "we and librbd write images alternately and concurrently", sharing),
        on_real_ceph("formats", "our output, streams and encrypted images equal Ceph's", formats),
        on_embedded("formats-embedded", "output and encrypted images equal Ceph's", "--memory 1G", embedded),
        new("osd-restart", "a real OSD stops and restarts under a verified load", load::osd_restart),
        new("socket-failures", "broken connections lose no write, ours or Ceph's", load::socket_failures),
        new("cephx", "we use a real cluster with keys in every mode and renew tickets", cephx::client),
        new("tools-cephx-v1", "Ceph's programs use our cluster with keys in protocol v1", cephx::server_v1),
        new("cephx-users", "users of a real cluster have exactly their capabilities", users::on_real_ceph),
        new("tools-cephx-users", "users of our cluster have exactly their capabilities", users::on_ours),
        new("tools-compression", "Ceph's programs and our OSDs compress frames", compression::on_ours),
    ];
    let since_reef = [
        one_on_real("migration-import", "images in use are filled from other sources", migration::imports),
        new("compression", "a real OSD and we compress frames by every method", compression::on_real_ceph),
        new("compression-secure", "both sides compress encrypted frames", compression::on_real_ceph_secure),
    ];
    let tentacle = [
        new("crush-changes", "we follow changes of the CRUSH map under a load", load::crush_changes),
        new("cephx-keys", "keys of both types work in every mode", cephx::both_types_of_keys),
    ];
    // 20.2 lists snapshots in groups and in the trash differently from 16.2, 18.2 and us.
    let admin = one_on_real("rbd-admin", "`rbd` and ours administer images with equal results", admin::run);
    let rows = all.into_iter().chain(smoke.map(Scenario::smoke)).map(|row| row.releases(ALL).minutes(30));
    rows.chain(since_reef.map(|row| row.releases(&[Reef, Tentacle]).minutes(30)))
        .chain(tentacle.map(|row| row.releases(&[Tentacle])))
        .chain([admin.releases(&[Pacific, Reef])])
        .collect()
}

/// Time for the lock of an image to be taken and for OSDs to trim snapshots.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs steps, separated by `; ` or on lines of their own. Comments begin with `#`.
/// - `onego ...`: our program. `rbd ...`, `ceph ...`, `rados ...`: Ceph's.
/// - `write IMAGE SIZE TOTAL`: librbd writes at random places. `verify IMAGE`: fio through our NBD server.
/// - `save IMAGE NAME`: Ceph exports to `NAME.raw`. `has IMAGE NAME`: both sides export the content of `NAME.raw`.
/// - `map IMAGE`: the object map is valid.
fn script(sandbox: &Sandbox, steps: &str) -> Result<()> {
    each_step(steps, |step| run_step(sandbox, step))
}

fn each_step(steps: &str, mut run: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let lines = steps.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for (index, step) in lines.flat_map(|line| line.split("; ")).enumerate() {
        run(step).with_context(|| format!("step {index}, `{step}`"))?;
    }
    Ok(())
}

fn run_step(sandbox: &Sandbox, step: &str) -> Result<()> {
    let words: Vec<_> = step.split_whitespace().collect();
    match words[..] {
        ["onego", ..] => sandbox.onego(&words[1..].join(" ")).map(drop),
        ["rbd" | "ceph" | "rados" | "ceph-authtool", ..] => sandbox.ceph(step).map(drop),
        ["write", image, size, total] => {
            let bench = "rbd bench --io-type write --io-pattern rand --io-threads 4";
            sandbox.ceph(&format!("{bench} --io-size {size} --io-total {total} {image}")).map(drop)
        }
        ["verify", image] => verify(sandbox, image),
        ["save", image, name] => {
            let file = sandbox.path(format!("{name}.raw"));
            if file.exists() {
                fs::remove_file(&file)?;
            }
            sandbox.ceph(&format!("rbd export --no-progress {image} {name}.raw")).map(drop)
        }
        ["has", image, name] => both_export(sandbox, image, &format!("{name}.raw"), ["", ""]),
        ["map", image] => map_is_valid(sandbox, image),
        _ => bail!("there is no such step"),
    }
}

/// Verifies a part of an image by fio through our server.
fn verify(sandbox: &Sandbox, image: &str) -> Result<()> {
    let server = Server::nbd(sandbox, &format!("rbd:{image}"))?;
    sandbox.ceph(&fio_on_nbd("ours", image, "--offset=36m --size=20m --io_size=6m"))?;
    check_report(sandbox, "ours")?;
    server.stop()
}

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
pub(crate) fn map_is_valid(sandbox: &Sandbox, image: &str) -> Result<()> {
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
