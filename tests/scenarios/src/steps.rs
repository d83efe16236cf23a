//! Steps that several scenarios take, and how they check what programs print.

use anyhow::{Context as _, Result, ensure};
use onego_sandbox::Sandbox;
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long an OSD may take to remove what the snapshots of a few images held.
pub(crate) const TRIMMED_IN: Duration = Duration::from_secs(30);

/// Checks that what a program printed has a text in it.
pub(crate) fn says(said: &str, expected: &str) -> Result<()> {
    ensure!(said.contains(expected), "expected `{expected}` in:\n{said}");
    Ok(())
}

pub(crate) fn json(said: &str) -> Result<Value> {
    serde_json::from_str(said).with_context(|| format!("not JSON:\n{said}"))
}

/// What all runs of fio have in common.
pub(crate) const FIO: &str =
    "--clientname=admin --pool=rbd --iodepth=32 --verify=crc32c --verify_fatal=1 --output-format=json";

pub(crate) fn fio_verifies_an_image(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd create --size 64M rbd/fio")?;
    for (kind, size) in [("randwrite", "4k"), ("write", "1m"), ("randrw", "64k")] {
        let engine = "--ioengine=rbd --rbdname=fio --size=64m";
        let line = format!("fio --name={kind} --rw={kind} --bs={size} {engine} {FIO}");
        fio_without_errors(&sandbox.ceph(&line)?)?;
    }
    Ok(())
}

/// An error if fio saw one, or did nothing.
pub(crate) fn fio_without_errors(said: &str) -> Result<()> {
    // Before its JSON fio may say what it thinks of the options.
    let report = json(&said[said.find("\n{").unwrap_or(0)..])?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "fio saw errors:\n{said}");
    let written = job["write"]["total_ios"].as_u64().unwrap_or(0);
    let read = job["read"]["total_ios"].as_u64().unwrap_or(0);
    ensure!(written > 0 && read > 0, "fio wrote {written} blocks and read {read}:\n{said}");
    Ok(())
}

/// A pool for images: the cluster may have it from the start.
pub(crate) fn ensure_pool(sandbox: &Sandbox) -> Result<()> {
    if !sandbox.ceph("ceph osd pool ls")?.lines().any(|name| name == "rbd") {
        sandbox.ceph("ceph osd pool create rbd 32")?;
    }
    sandbox.ceph("rbd pool init rbd").map(drop)
}

/// Waits until no object of these pools has a name with one of these parts. An object is listed until what its
/// snapshots held is gone, too.
pub(crate) fn nothing_is_left(
    sandbox: &Sandbox,
    pools: &[&str],
    parts: &[&str],
    patience: Duration,
) -> Result<()> {
    let start = Instant::now();
    loop {
        let mut objects = String::new();
        for pool in pools {
            objects += &sandbox.ceph(&format!("rados --pool {pool} ls --all"))?;
        }
        let left: Vec<_> =
            objects.lines().filter(|name| parts.iter().any(|part| name.contains(part))).collect();
        if left.is_empty() {
            return Ok(());
        }
        let first = &left[..left.len().min(10)];
        let late = start.elapsed() >= patience;
        ensure!(!late, "{} objects are left of images that were removed, among them {first:?}", left.len());
        sleep(Duration::from_millis(200));
    }
}
