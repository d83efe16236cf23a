//! Clients that lie and clients that send no valid message: what they gain, and what they cost.
//!
//! The attackers are programs in Python with encoders of their own, so they do not repeat errors of the server's.

mod memory;

use crate::bench::Background;
use crate::scenario::Scenario;
use crate::steps::{ensure_pool, json, says};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::Release::{Pacific, Reef, Tentacle};
use onego_sandbox::{ADDRESS, Sandbox, Server};
use std::fs;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "nfs-attacks",
            "callers of any identity gain nothing from a directory that we serve",
            nfs,
        )
        .smoke()
        .root(),
        Scenario::new(
            "memory-attacks",
            "clients that make our NFS servers hold memory gain little, and others are served",
            memory::of_nfs_servers,
        )
        .smoke(),
        Scenario::new(
            "memory-attacks-cluster",
            "clients that make our embedded cluster hold memory gain little, and others are served",
            memory::of_cluster,
        )
        .smoke(),
        Scenario::new("bad-input", "broken bytes and wrong arguments harm nothing", bad_input)
            .smoke()
            .releases(&[Reef, Pacific, Tentacle]),
    ]
}

/// Writes the attackers to the sandbox.
fn prepare(sandbox: &Sandbox) -> Result<()> {
    sandbox.write("wire.py", include_str!("wire.py"))?;
    sandbox.write("nfs.py", include_str!("nfs.py"))?;
    sandbox.write("memory.py", include_str!("memory.py"))?;
    sandbox.write("garbage.py", include_str!("garbage.py"))
}

/// Attacks a server of a directory that runs as root with its default options.
fn nfs(sandbox: &Sandbox) -> Result<()> {
    prepare(sandbox)?;
    fs::create_dir(sandbox.path("export"))?;
    let _server = Server::nfs(sandbox, "export")?;
    says(&sandbox.tool(&format!("python3 nfs.py {ADDRESS}"))?, "all 13 attacks held")
}

/// Most memory that broken bytes may cost the server, in bytes.
const TAKEN: u64 = 64 << 20;

/// Wrong arguments, each with the exit code that `onego --help` documents and a part of the error message.
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

/// Sends broken bytes to the monitor and the OSD, idle and under a verified load, and gives wrong arguments.
fn bad_input(sandbox: &Sandbox) -> Result<()> {
    prepare(sandbox)?;
    let mut cluster = Server::cluster(sandbox, "")?;
    ensure_pool(sandbox)?;
    let osd = json(&sandbox.ceph("ceph osd dump --format json")?)?["osds"][0].take();
    let monitor = json(&sandbox.ceph("ceph mon dump --format json")?)?["mons"][0].take();
    let ports = [monitor, osd].map(|daemon| {
        let address = daemon["public_addrs"]["addrvec"][0]["addr"].as_str().unwrap_or("without address");
        address.replace(':', " ")
    });
    let send = |port: &str, seed| sandbox.tool(&format!("python3 garbage.py {seed} {port}")).map(drop);
    let before = cluster.daemon().memory().peak()?;
    ports.iter().enumerate().try_for_each(|(seed, port)| send(port, seed))?;
    let taken = cluster.daemon().memory().peak()? - before;
    ensure!(taken < TAKEN, "broken bytes cost the server {} MiB", taken >> 20);

    let mut load = Background::verified_writes(sandbox, 10)?;
    for (seed, port) in ports.iter().enumerate() {
        load.check_running()?;
        send(port, 100 + seed)?;
    }
    load.finish(sandbox)?;
    sandbox.ceph("ceph osd stat")?;
    cluster.daemon().check_alive()?;

    sandbox.onego("--conf ceph.conf rbd create rbd/there --size 1M")?;
    for (line, code, expected) in WRONG {
        let output = sandbox.onego_fails(line)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_clear = said.contains(expected) && !said.contains("panicked");
        ensure!(is_clear, "`onego {line}` does not name `{expected}`:\n{said}");
        let status = output.status.code().context("onego was killed")?;
        ensure!(status == *code, "`onego {line}` exits with {status} instead of {code}");
    }
    ensure!(!sandbox.path("out.raw").exists(), "a failed export left a file");
    Ok(())
}
