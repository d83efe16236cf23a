//! Compressed frames, to and from Ceph's OSDs and Ceph's programs.
//!
//! An OSD of Ceph agrees to compress only with peers that say they are OSDs. So a client of ours gets it there only if
//! it says so (`--as-osd`, which is for this), and Ceph's clients get it only from our OSDs.

use super::images;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::bench::no_errors;
use crate::interop::disk;
use crate::interop::steps::{ensure_pool, fio_verifies_an_image};
use crate::long;
use anyhow::{Context as _, Result, ensure};
use std::fs;

const METHODS: [&str; 4] = ["snappy", "zlib", "zstd", "lz4"];

/// The methods to test: how Ceph frames each of them is held by recorded frames, too.
fn methods() -> &'static [&'static str] {
    if long::is_wanted() { &METHODS } else { &METHODS[..2] }
}

/// Settings of an OSD that compresses by all methods, and says so in its log.
const FORCE: &str = "\
ms osd compress mode = force
ms osd compression algorithm = snappy zlib zstd lz4
debug ms = 20
";

/// Our options for the same.
const FORCED: &str = "--as-osd --ms-osd-compress-mode force";

/// What 18.2 writes of a segment that it has compressed, and of one that it has decompressed.
const SENT: &str = " uncompressed.length()=";
const RECEIVED: &str = " compressed.length()=";

/// How many segments a program of Ceph has compressed and decompressed, by its log.
fn segments(stage: &Stage, log: &str) -> Result<(usize, usize)> {
    let said = fs::read(stage.path(log)).with_context(|| format!("cannot read {log}"))?;
    let said = String::from_utf8_lossy(&said);
    let lines = |first: &str, second: &str| {
        let both = |line: &&str| line.find(first).is_some_and(|at| line[at + 1..].contains(second));
        said.lines().filter(both).count()
    };
    Ok((lines(SENT, RECEIVED), lines(RECEIVED, SENT)))
}

/// Runs something, and says whether Ceph's program whose log that is has compressed and decompressed meanwhile.
fn compresses(stage: &Stage, log: &str, run: impl FnOnce() -> Result<()>) -> Result<(bool, bool)> {
    let before = if stage.path(log).exists() { segments(stage, log)? } else { (0, 0) };
    run()?;
    let after = segments(stage, log)?;
    Ok((after.0 > before.0, after.1 > before.1))
}

fn ensure_both((sent, received): (bool, bool), what: &str) -> Result<()> {
    ensure!(sent && received, "{what}: Ceph has compressed: {sent}, has decompressed: {received}");
    Ok(())
}

fn ensure_neither(seen: (bool, bool), what: &str) -> Result<()> {
    ensure!(seen == (false, false), "{what}: there are compressed frames");
    Ok(())
}

/// Images and loads on a real OSD, by every method, and where one side does not compress.
pub(crate) fn on_real_ceph(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start_with(stage, Store::Memory, FORCE)?;
    disk::make_text(&stage.path("disk.raw"))?;
    for method in methods() {
        let options = format!("{FORCED} --ms-osd-compression-algorithm {method}");
        let seen = compresses(stage, "osd.0.log", || {
            images::round_trip(stage, |line| stage.onego(&format!("--conf ceph.conf {options} {line}")))
        })?;
        ensure_both(seen, method)?;
        verified(stage, &options)?;
    }
    for (what, options) in [
        ("we do not compress", "--as-osd"),
        ("a client that says what it is", "--ms-osd-compress-mode force"),
    ] {
        let seen = compresses(stage, "osd.0.log", || {
            images::round_trip(stage, |line| stage.onego(&format!("--conf ceph.conf {options} {line}")))
        })?;
        ensure_neither(seen, what)?;
    }
    Ok(())
}

/// The same encrypted, which both sides have to agree to.
pub(crate) fn on_real_ceph_secure(stage: &Stage) -> Result<()> {
    for (theirs, ours) in [("true", "true"), ("true", "false"), ("false", "true")] {
        let _ceph = RealCeph::start_with_cephx(stage, &format!("{FORCE}ms compress secure = {theirs}\n"))?;
        disk::make_text(&stage.path("disk.raw"))?;
        let options = format!("{FORCED} --ms-mode secure --ms-compress-secure {ours}");
        let seen = compresses(stage, "osd.0.log", || {
            images::round_trip(stage, |line| stage.onego(&format!("--conf ceph.conf {options} {line}")))?;
            verified(stage, &options)
        })?;
        if theirs == ours {
            ensure_both(seen, "encrypted")?;
        } else {
            ensure_neither(seen, "encrypted, and one side does not want that compressed")?;
        }
        drop(_ceph);
        stage.empty()?;
    }
    Ok(())
}

fn verified(stage: &Stage, options: &str) -> Result<()> {
    stage.onego(&format!(
        "{options} bench rbd --cluster ceph.conf --rw randrw --block-size 4k,64k --io-depth 16 --size 16M --seconds 2 \
         --verify --json rows.json"
    ))?;
    no_errors(&stage.path("rows.json"))?;
    fs::remove_file(stage.path("rows.json")).map_err(Into::into)
}

/// Ceph's programs on our cluster: those of 18.2 compress, those of 16.2 cannot, and work all the same.
pub(crate) fn on_ours(stage: &Stage) -> Result<()> {
    let knows = !stage.ceph("ceph --version")?.contains("version 16.");
    let force = "--ms-osd-compress-mode force";
    for method in methods() {
        let cluster = Embedded::start(stage, &format!("{force} --ms-osd-compression-algorithm {method}"))?;
        copies(stage, "crc", knows).context(*method)?;
        if *method == METHODS[0] {
            loads(stage, "crc")?;
        }
        drop(cluster);
        stage.empty()?;
    }
    let cluster = Embedded::start(stage, &format!("{force} --auth cephx --ms-compress-secure true"))?;
    copies(stage, "secure", knows).context("encrypted")?;
    loads(stage, "secure")?;
    drop(cluster);
    stage.empty()?;
    let cluster = Embedded::start(stage, &format!("{force} --auth cephx"))?;
    copies(stage, "secure", false).context("encrypted, which is not to be compressed")?;
    drop(cluster);
    stage.empty()?;
    // Here the cluster does not compress, whatever its clients want.
    let _cluster = Embedded::start(stage, "")?;
    let conf = fs::read_to_string(stage.path("ceph.conf"))?;
    fs::write(stage.path("ceph.conf"), format!("{conf}ms osd compress mode = force\n"))?;
    copies(stage, "crc", false).context("a cluster that does not compress")
}

/// Objects and images. The `ceph.conf` that the cluster writes says what it compresses, and so all programs do.
fn copies(stage: &Stage, mode: &str, compressed: bool) -> Result<()> {
    ensure_pool(stage)?;
    disk::make_text(&stage.path("disk.raw"))?;
    let modes = format!("--ms-client-mode {mode}");
    let seen = compresses(stage, "client.log", || {
        let log = "--debug-ms 20 --log-file client.log";
        stage.ceph(&format!("rados {modes} {log} --pool rbd put thing ceph.conf"))?;
        stage.ceph(&format!("rados {modes} {log} --pool rbd put large disk.raw"))?;
        stage.ceph(&format!("rados {modes} {log} --pool rbd get large large.raw"))?;
        disk::compare(&stage.path("disk.raw"), &stage.path("large.raw"))
    })?;
    if compressed {
        ensure_both(seen, mode)?;
    } else {
        ensure_neither(seen, mode)?;
    }
    stage.ceph(&format!("rbd {modes} import --image-feature layering disk.raw rbd/disk"))?;
    images::both_export(
        stage,
        |line| stage.onego(&format!("--conf ceph.conf --ms-mode {mode} {line}")),
        |line| stage.ceph(&format!("{line} {modes}")),
    )
}

/// `rados bench`, fio and our own load, each of which compares what it reads.
fn loads(stage: &Stage, mode: &str) -> Result<()> {
    let modes = format!("--ms-client-mode {mode}");
    let write = "bench 2 write -b 65536 --max-objects 1000 --no-cleanup";
    stage.ceph(&format!("rados {modes} --pool rbd {write}"))?;
    let said = stage.ceph(&format!("rados {modes} --pool rbd bench 2 seq"))?;
    ensure!(!said.contains("is not correct"), "`rados bench seq` read something else:\n{said}");
    fio_verifies_an_image(stage)?;
    verified(stage, &format!("--ms-mode {mode}"))
}
