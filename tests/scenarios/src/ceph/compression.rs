//! Compressed frames, to and from Ceph's OSDs and Ceph's programs.
//!
//! An OSD of Ceph compresses only for peers that call themselves OSDs. Our client does so with `--as-osd`, an option
//! for this test, and Ceph's clients get compressed frames only from our OSDs.

use super::{both_export, round_trip, same_file, verified_load};
use crate::steps::{ensure_pool, fio_verifies_an_image};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::workspace::is_long;
use onego_sandbox::{RealCeph, Release, Sandbox, Server, Store, disk};
use std::fs;

/// Returns the methods to test. Recorded frames test all of them elsewhere.
fn methods() -> &'static [&'static str] {
    if is_long() { &["snappy", "zlib", "zstd", "lz4"] } else { &["snappy", "zlib"] }
}

/// Settings of an OSD that compresses by all methods and logs it.
const OSD: &str = "\
ms osd compress mode = force
ms osd compression algorithm = snappy zlib zstd lz4
debug ms = 20
";

/// Our options for the same.
const FORCED: &str = "--as-osd --ms-osd-compress-mode force";

/// Names of lengths in the log of 18.2: the input's comes before the output's.
const PLAIN: &str = " uncompressed.length()=";
const COMPRESSED: &str = " compressed.length()=";

/// Returns the numbers of segments that a program of Ceph logged as compressed and as decompressed.
fn segments(sandbox: &Sandbox, log: &str) -> Result<(usize, usize)> {
    let said = fs::read(sandbox.path(log)).with_context(|| format!("cannot read {log}"))?;
    let said = String::from_utf8_lossy(&said);
    let lines = |first: &str, second: &str| {
        let has_both = |line: &&str| line.find(first).is_some_and(|at| line[at + 1..].contains(second));
        said.lines().filter(has_both).count()
    };
    Ok((lines(PLAIN, COMPRESSED), lines(COMPRESSED, PLAIN)))
}

/// Checks that during `run` the program with that log compressed and decompressed, or that it did neither.
fn check(
    sandbox: &Sandbox,
    log: &str,
    name: &str,
    is_expected: bool,
    run: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let before = if sandbox.path(log).exists() { segments(sandbox, log)? } else { (0, 0) };
    run().with_context(|| name.to_owned())?;
    let after = segments(sandbox, log)?;
    let seen = (after.0 > before.0, after.1 > before.1);
    ensure!(seen == (is_expected, is_expected), "{name}: Ceph (compressed, decompressed) = {seen:?}");
    Ok(())
}

/// Checks whether a real OSD compresses for our client with these options.
fn check_osd(sandbox: &Sandbox, options: &str, is_expected: bool, with_load: bool) -> Result<()> {
    check(sandbox, "osd.0.log", options, is_expected, || {
        round_trip(sandbox, options)?;
        if with_load { load(sandbox, options) } else { Ok(()) }
    })
}

fn load(sandbox: &Sandbox, options: &str) -> Result<()> {
    verified_load(sandbox, options, "--block-size 4k,64k --io-depth 16 --size 16M --seconds 2")
}

pub(super) fn on_real_ceph(sandbox: &Sandbox) -> Result<()> {
    let _ceph = RealCeph::start_with(sandbox, Store::Memory, OSD)?;
    disk::make_text(&sandbox.path("disk.raw"))?;
    for method in methods() {
        let options = format!("{FORCED} --ms-osd-compression-algorithm {method}");
        check_osd(sandbox, &options, true, false)?;
        load(sandbox, &options)?;
    }
    // Our side does not compress; our side does not call itself an OSD.
    for options in ["--as-osd", "--ms-osd-compress-mode force"] {
        check_osd(sandbox, options, false, false)?;
    }
    Ok(())
}

/// Compresses encrypted frames, which both sides have to agree to.
pub(super) fn on_real_ceph_secure(sandbox: &Sandbox) -> Result<()> {
    for (theirs, ours) in [(true, true), (true, false), (false, true)] {
        let ceph = RealCeph::start_with_cephx(sandbox, &format!("{OSD}ms compress secure = {theirs}\n"))?;
        disk::make_text(&sandbox.path("disk.raw"))?;
        let options = format!("{FORCED} --ms-mode secure --ms-compress-secure {ours}");
        check_osd(sandbox, &options, theirs && ours, true)?;
        drop(ceph);
        sandbox.empty()?;
    }
    Ok(())
}

/// Runs Ceph's programs on our cluster. Those of 16.2 cannot compress and work without.
pub(super) fn on_ours(sandbox: &Sandbox) -> Result<()> {
    let is_supported = sandbox.release() != Release::Pacific;
    let force = "--ms-osd-compress-mode force";
    let secure = format!("{force} --auth cephx --ms-compress-secure true");
    let methods = methods().iter().enumerate().map(|(index, method)| {
        (format!("{force} --ms-osd-compression-algorithm {method}"), "crc", is_supported, index == 0)
    });
    let others =
        [(secure, "secure", is_supported, true), (format!("{force} --auth cephx"), "secure", false, false)];
    for (arguments, mode, is_expected, with_loads) in methods.chain(others) {
        let cluster = Server::cluster(sandbox, &arguments)?;
        copies(sandbox, mode, is_expected).with_context(|| arguments.clone())?;
        if with_loads {
            loads(sandbox, mode).with_context(|| arguments.clone())?;
        }
        drop(cluster);
        sandbox.empty()?;
    }
    // A cluster that does not compress, with clients that do.
    let _cluster = Server::cluster(sandbox, "")?;
    let conf = sandbox.read("ceph.conf")?;
    sandbox.write("ceph.conf", conf + "ms osd compress mode = force\n")?;
    copies(sandbox, "crc", false).context("a cluster that does not compress")
}

/// Copies objects and images. All programs read from `ceph.conf` whether to compress.
fn copies(sandbox: &Sandbox, mode: &str, is_compressed: bool) -> Result<()> {
    ensure_pool(sandbox)?;
    disk::make_text(&sandbox.path("disk.raw"))?;
    let modes = format!("--ms-client-mode {mode}");
    check(sandbox, "client.log", mode, is_compressed, || {
        for line in ["put thing ceph.conf", "put large disk.raw", "get large large.raw"] {
            let log = "--debug-ms 20 --log-file client.log";
            sandbox.ceph(&format!("rados {modes} {log} --pool rbd {line}"))?;
        }
        same_file(sandbox, "disk.raw", "large.raw")
    })?;
    sandbox.ceph(&format!("rbd {modes} import --image-feature layering disk.raw rbd/disk"))?;
    let ours = format!("--conf ceph.conf --ms-mode {mode}");
    both_export(sandbox, "rbd/disk", "disk.raw", [&ours, &modes])
}

/// Runs loads that verify what they read: `rados bench`, fio and ours.
fn loads(sandbox: &Sandbox, mode: &str) -> Result<()> {
    let rados = format!("rados --ms-client-mode {mode} --pool rbd");
    sandbox.ceph(&format!("{rados} bench 2 write -b 65536 --max-objects 1000 --no-cleanup"))?;
    let said = sandbox.ceph(&format!("{rados} bench 2 seq"))?;
    ensure!(!said.contains("is not correct"), "`rados bench seq` read other data:\n{said}");
    fio_verifies_an_image(sandbox)?;
    load(sandbox, &format!("--ms-mode {mode}"))
}
