//! Broken bytes on both ports while others work, and wrong arguments.

use crate::cluster::{Embedded, Stage};
use crate::interop::bench::Background;
use crate::interop::steps::ensure_pool;
use anyhow::{Context as _, Result, ensure};

/// Memory that broken bytes may make the server take, at most.
const TAKEN: u64 = 64 << 20;

/// `onego` with wrong arguments: the exit code, and a part of what it says. The codes are those that `onego --help`
/// documents.
const WRONG: &[(&str, i32, &str)] = &[
    ("no-such-command", 2, "no-such-command"),
    ("rbd create rbd/image --size", 2, "--size"),
    ("rbd create rbd/image --size lots", 2, "lots"),
    ("bench rbd --rw sideways", 2, "sideways"),
    ("bench rbd --block-size 0", 2, "0"),
    ("bench rbd --io-depth 0", 2, "0"),
    ("cluster start --listen not-an-address", 2, "not-an-address"),
    ("cluster start --memory lots", 2, "lots"),
    ("--conf missing.conf rbd ls rbd", 1, "missing.conf"),
    ("--conf ceph.conf rbd import missing.raw rbd/image", 1, "missing.raw"),
    ("--conf ceph.conf rbd ls nowhere", 3, "nowhere"),
    ("--conf ceph.conf rbd info rbd/nothing", 3, "nothing"),
    ("--conf ceph.conf rbd export rbd/nothing out.raw", 3, "nothing"),
    ("--conf ceph.conf rbd rm rbd/nothing", 3, "nothing"),
    ("--conf ceph.conf rbd create rbd/there --size 1M", 4, "there"),
    ("--mon-host 10.20.0.1:1 --connect-timeout 2 rbd ls rbd", 7, "no monitor"),
];

/// The server survives, others are served, memory stays; wrong arguments get a clear answer.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let mut cluster = Embedded::start(stage, "")?;
    ensure_pool(stage)?;
    let ports = ports(stage)?;
    let before = cluster.server().peak_memory()?;
    for (seed, port) in ports.iter().enumerate() {
        send_garbage(stage, port, seed)?;
    }
    let after = cluster.server().peak_memory()?;
    ensure!(after - before < TAKEN, "broken bytes made the server take {} MiB", (after - before) >> 20);

    let mut load = Background::verified_writes(stage, 10)?;
    for (seed, port) in ports.iter().enumerate() {
        load.check_running()?;
        send_garbage(stage, port, seed + 100)?;
    }
    load.finish(stage)?;
    stage.ceph("ceph osd stat")?;
    cluster.server().check_alive()?;
    wrong_arguments(stage)
}

fn send_garbage(stage: &Stage, address: &str, seed: usize) -> Result<()> {
    let xtask = std::env::current_exe()?;
    let line = format!("send-garbage --seed {seed} {address}");
    crate::sh::text(&mut stage.program(&xtask, &line))
        .with_context(|| format!("replay with `cargo xtask {line}` against a cluster on that address"))?;
    Ok(())
}

fn wrong_arguments(stage: &Stage) -> Result<()> {
    stage.onego("--conf ceph.conf rbd create rbd/there --size 1M")?;
    for (line, code, expected) in WRONG {
        let output = stage.onego_fails(line)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(*code) && said.contains(expected) && !said.contains("panicked"),
            "`onego {line}` was to exit with {code} and name `{expected}`, but: {}\n{said}",
            output.status
        );
    }
    ensure!(!stage.path("out.raw").exists(), "an export that failed left a file");
    Ok(())
}

/// The addresses of the monitor and of the OSD.
fn ports(stage: &Stage) -> Result<Vec<String>> {
    let dump = stage.ceph("ceph osd dump --format json")?;
    let dump: serde_json::Value = serde_json::from_str(&dump)?;
    let osd =
        dump["osds"][0]["public_addrs"]["addrvec"][0]["addr"].as_str().context("the OSD has no address")?;
    let monitors = stage.ceph("ceph mon dump --format json")?;
    let monitors: serde_json::Value = serde_json::from_str(&monitors)?;
    let monitor = monitors["mons"][0]["public_addrs"]["addrvec"][0]["addr"].as_str();
    Ok(vec![monitor.context("the monitor has no address")?.to_owned(), osd.to_owned()])
}
