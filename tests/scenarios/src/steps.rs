//! Steps that several scenarios take, and checks of what programs print.

use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Daemon, Sandbox, disk};
use serde_json::Value;
use std::fs;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time an OSD gets to remove the data of a few images' snapshots.
pub(crate) const TRIMMED_IN: Duration = Duration::from_secs(30);

/// Interval of polling.
const TICK: Duration = Duration::from_millis(200);

/// Options of all runs of fio.
pub(crate) const FIO: &str =
    "--clientname=admin --pool=rbd --iodepth=32 --verify=crc32c --verify_fatal=1 --output-format=json";

/// Fails unless a program printed `expected`.
pub(crate) fn says(said: &str, expected: &str) -> Result<()> {
    ensure!(said.contains(expected), "expected `{expected}` in:\n{said}");
    Ok(())
}

/// Fails unless a program printed `expected` to standard error.
pub(crate) fn says_error(output: &Output, expected: &str) -> Result<()> {
    says(&String::from_utf8_lossy(&output.stderr), expected)
}

/// Runs lines of programs of the release, each of which must print the text next to it.
pub(crate) fn each_says(sandbox: &Sandbox, lines: &[(&str, &str)]) -> Result<()> {
    lines.iter().try_for_each(|(line, expected)| {
        says(&sandbox.ceph(line)?, expected).with_context(|| format!("`{line}`"))
    })
}

pub(crate) fn json(said: &str) -> Result<Value> {
    serde_json::from_str(said).with_context(|| format!("not JSON:\n{said}"))
}

/// Fails unless two files of the sandbox are equal.
pub(crate) fn same_files(sandbox: &Sandbox, one: &str, other: &str) -> Result<()> {
    disk::compare(&sandbox.path(one), &sandbox.path(other))
}

/// Fails unless the release's program and ours have exported what `disk.raw` has; removes both files.
pub(crate) fn exports_are_whole(sandbox: &Sandbox) -> Result<()> {
    ["theirs.raw", "ours.raw"].iter().try_for_each(|name| {
        same_files(sandbox, "disk.raw", name)?;
        Ok(fs::remove_file(sandbox.path(name))?)
    })
}

/// Starts a line of a program of the release with its output in `NAME.out`.
pub(crate) fn in_background(sandbox: &Sandbox, name: &str, line: &str) -> Result<Daemon> {
    Daemon::spawn(name, sandbox.ceph_daemon(line), &sandbox.path(format!("{name}.out")))
}

/// Polls until `ready` returns true; fails after `patience` or when `ready` fails.
pub(crate) fn wait_until(
    sandbox: &Sandbox,
    what: &str,
    patience: Duration,
    mut ready: impl FnMut(&Sandbox) -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while !ready(sandbox)? {
        ensure!(start.elapsed() < patience, "no {what} within {patience:?}");
        sleep(TICK);
    }
    Ok(())
}

/// Polls for up to a minute until a line of a program of the release prints `expected`.
pub(crate) fn wait_until_says(sandbox: &Sandbox, line: &str, expected: &str) -> Result<()> {
    let mut said = String::new();
    let waited = wait_until(sandbox, expected, Duration::from_secs(60), |sandbox| {
        said = sandbox.ceph(line)?;
        Ok(said.contains(expected))
    });
    waited.with_context(|| format!("`{line}` prints:\n{said}"))
}

/// Creates an image `rbd/fio` and lets fio write and verify it in blocks of several sizes.
pub(crate) fn fio_verifies_an_image(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd create --size 64M rbd/fio")?;
    for (kind, size) in [("randwrite", "4k"), ("write", "1m"), ("randrw", "64k")] {
        let options = format!("--rw={kind} --bs={size} --ioengine=rbd --rbdname=fio --size=64m {FIO}");
        fio_without_errors(&sandbox.ceph(&format!("fio --name={kind} {options}"))?)?;
    }
    Ok(())
}

/// Fails if fio reports an error, or did no reads or no writes.
pub(crate) fn fio_without_errors(said: &str) -> Result<()> {
    // fio may print remarks on its options before the JSON.
    let report = json(&said[said.find("\n{").unwrap_or(0)..])?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "fio saw errors:\n{said}");
    let [written, read] = ["write", "read"].map(|kind| job[kind]["total_ios"].as_u64().unwrap_or(0));
    ensure!(written > 0 && read > 0, "fio wrote {written} blocks and read {read}:\n{said}");
    Ok(())
}

/// Prepares the pool `rbd` for images, and creates it where the cluster has none.
pub(crate) fn ensure_pool(sandbox: &Sandbox) -> Result<()> {
    if !sandbox.ceph("ceph osd pool ls")?.lines().any(|name| name == "rbd") {
        sandbox.ceph("ceph osd pool create rbd 32")?;
    }
    sandbox.ceph("rbd pool init rbd").map(drop)
}

/// Waits until no object of these pools has a name with one of these parts. Objects stay listed until the data of
/// their snapshots is gone.
pub(crate) fn nothing_is_left(
    sandbox: &Sandbox,
    pools: &[&str],
    parts: &[&str],
    patience: Duration,
) -> Result<()> {
    let mut left = Vec::new();
    let waited = wait_until(sandbox, "empty list of objects", patience, |sandbox| {
        left.clear();
        for pool in pools {
            let objects = sandbox.ceph(&format!("rados --pool {pool} ls --all"))?;
            let of_images = objects.lines().filter(|name| parts.iter().any(|part| name.contains(part)));
            left.extend(of_images.map(str::to_owned));
        }
        Ok(left.is_empty())
    });
    let shown = left.iter().take(10).collect::<Vec<_>>();
    waited.with_context(|| format!("{} objects of removed images are left, first {shown:?}", left.len()))
}
