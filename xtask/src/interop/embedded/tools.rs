//! Ceph's own programs against our embedded cluster, each result checked.

use crate::cluster::{Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::{FIO, ensure_pool, fio_verifies_an_image, fio_without_errors, json, says};
use crate::long;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::time::{Duration, Instant};

/// How long a refusal may take on a busy machine: it waits for nothing.
const LIMIT: Duration = Duration::from_secs(20);

/// Writes more at once than an OSD takes, by librados.
const TOO_LARGE: &str = include_str!("too_large.py");

/// Status, maps, and the life of pools.
pub(crate) fn ceph(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    says(&stage.ceph("ceph -s")?, "1 osds: 1 up")?;
    says(&stage.ceph("ceph health")?, "HEALTH_")?;
    let status = json(&stage.ceph("ceph -s --format json")?)?;
    ensure!(status["osdmap"]["num_up_osds"] == 1, "`ceph -s` says {status}");

    stage.ceph("ceph osd pool create first 16")?;
    stage.ceph("ceph osd pool create second 64")?;
    stage.ceph("ceph osd pool application enable first rbd")?;
    let pools = stage.ceph("ceph osd pool ls")?;
    ensure!(pools.lines().any(|name| name == "first"), "`ceph osd pool ls` says {pools}");
    let dump = json(&stage.ceph("ceph osd dump --format json")?)?;
    let pool = |name: &str| {
        let pools = dump["pools"].as_array().into_iter().flatten();
        let found = pools.into_iter().find(|pool| pool["pool_name"] == name);
        found.with_context(|| format!("no pool {name} in {dump}"))
    };
    ensure!(pool("first")?["pg_num"] == 16, "the pool has other placement groups: {dump}");
    ensure!(pool("second")?["pg_num"] == 64, "the pool has other placement groups: {dump}");
    says(&stage.ceph("ceph osd dump")?, "'first' replicated")?;
    says(&stage.ceph("ceph osd lspools")?, "first")?;
    says(&stage.ceph("ceph osd stat")?, "1 up")?;
    says(&stage.ceph("ceph osd tree")?, "osd.0")?;
    says(&stage.ceph("ceph mon stat")?, "quorum")?;
    says(&stage.ceph("ceph df")?, "first")?;
    let fsid = stage.ceph("ceph fsid")?;
    ensure!(dump["fsid"] == fsid.trim(), "`ceph fsid` says {fsid}");
    maps(stage)?;
    managers(stage)?;

    // Like a monitor's, ours removes a pool only for one who says it twice and means it.
    stage.ceph_fails("ceph osd pool rm first")?;
    stage.ceph("ceph osd pool rm first first --yes-i-really-really-mean-it")?;
    let pools = stage.ceph("ceph osd pool ls")?;
    ensure!(!pools.lines().any(|name| name == "first"), "`ceph osd pool ls` says {pools}");
    let refused = stage.ceph_fails("ceph osd no-such-command")?;
    says(&String::from_utf8_lossy(&refused.stderr), "EINVAL")
}

/// What managers of real clusters answer is answered, also where the manager is asked for it; what their modules do is
/// refused at once.
fn managers(stage: &Stage) -> Result<()> {
    says(&stage.ceph("timeout 20 ceph pg ls")?, "active+clean")?;
    says(&stage.ceph("timeout 20 ceph pg dump pgs_brief")?, "active+clean")?;
    says(&stage.ceph("timeout 20 ceph osd df")?, "TOTAL")?;
    says(&stage.ceph("timeout 20 ceph -s")?, "mgr: a(active")?;
    says(&stage.ceph("timeout 20 ceph tell mgr pg ls")?, "active+clean")?;
    says(&stage.ceph("timeout 20 ceph tell mgr osd df")?, "TOTAL")?;
    for line in ["ceph balancer status", "ceph tell mgr balancer status", "rbd perf image iostat"] {
        let start = Instant::now();
        let refused = stage.ceph_fails(line)?;
        ensure!(start.elapsed() < LIMIT, "`{line}` is refused after {:?}", start.elapsed());
        ensure!(!refused.stderr.trim_ascii().is_empty(), "`{line}` is refused without a word");
    }
    Ok(())
}

/// The maps that we hand out are whole to Ceph's map tools.
fn maps(stage: &Stage) -> Result<()> {
    stage.ceph("ceph osd getmap -o osdmap")?;
    says(&stage.ceph("osdmaptool osdmap --print")?, "max_osd 1")?;
    says(&stage.ceph("osdmaptool osdmap --test-map-pgs")?, "avg")?;
    stage.ceph("ceph osd getcrushmap -o crushmap")?;
    says(&stage.ceph("crushtool -d crushmap")?, "rule replicated_rule")?;
    stage.ceph("ceph mon getmap -o monmap")?;
    says(&stage.ceph("monmaptool --print monmap")?, "mon.")
}

/// Objects: data, extended attributes, omap.
pub(crate) fn rados(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    stage.ceph("ceph osd pool create things 8")?;
    let rados = |line: &str| stage.ceph(&format!("rados --pool things {line}"));
    let content = disk::Random(7).bytes(5 << 20);
    fs::write(stage.path("in"), &content)?;
    fs::write(stage.path("tail"), b"the end")?;

    rados("put thing in")?;
    rados("get thing out")?;
    disk::compare(&stage.path("in"), &stage.path("out"))?;
    rados("append thing tail")?;
    says(&rados("stat thing")?, &format!("size {}", content.len() + 7))?;
    rados("get thing out")?;
    ensure!(fs::read(stage.path("out"))? == [&content, &b"the end"[..]].concat(), "the append is not there");
    rados("truncate thing 1000")?;
    rados("get thing out")?;
    ensure!(fs::read(stage.path("out"))? == content[..1000], "the truncated object differs");

    rados("setxattr thing colour green")?;
    ensure!(rados("getxattr thing colour")?.trim_end() == "green", "the attribute differs");
    ensure!(rados("listxattr thing")?.trim() == "colour", "the list of attributes differs");
    rados("rmxattr thing colour")?;
    ensure!(rados("listxattr thing")?.trim().is_empty(), "the attribute is still there");

    rados("setomapval thing a first")?;
    rados("setomapval thing b second")?;
    ensure!(rados("listomapkeys thing")?.split_whitespace().eq(["a", "b"]), "the keys differ");
    says(&rados("listomapvals thing")?, "|second|")?;
    says(&rados("getomapval thing a")?, "|first|")?;
    rados("rmomapkey thing a")?;
    ensure!(rados("listomapkeys thing")?.trim() == "b", "the key is still there");
    rados("setomapheader thing top")?;
    says(&rados("getomapheader thing")?, "|top|")?;

    namespaces(stage)?;
    too_large(stage)?;
    let refused = stage.ceph_fails("rados --pool things get nothing out")?;
    says(&String::from_utf8_lossy(&refused.stderr), "No such file or directory")?;
    rados("rm thing")?;
    ensure!(rados("ls")?.trim().is_empty(), "the object is still listed");
    stage.ceph_fails("rados --pool nowhere ls").map(drop)
}

/// Writes of 300 MiB by one request are refused, not sent for ever: librados sends them, and its connection goes on.
fn too_large(stage: &Stage) -> Result<()> {
    fs::write(stage.path("too_large.py"), TOO_LARGE)?;
    let said = stage.ceph("python3 too_large.py")?;
    for expected in ["large: EMSGSIZE\n", "part: EMSGSIZE\n", "small: after\n", "objects: small thing\n"] {
        says(&said, expected)?;
    }
    Ok(())
}

/// Equal names in two namespaces and under a locator are different objects, and a listing of many is whole.
fn namespaces(stage: &Stage) -> Result<()> {
    stage.ceph("rados --pool things --namespace other put thing tail")?;
    ensure!(
        stage.ceph("rados --pool things --namespace other ls")?.trim() == "thing",
        "the namespace differs"
    );
    ensure!(stage.ceph("rados --pool things ls")?.trim() == "thing", "the default namespace differs");
    says(&stage.ceph("rados --pool things --all ls")?, "other")?;
    stage.ceph("rados --pool things --namespace other get thing out")?;
    ensure!(fs::read(stage.path("out"))? == b"the end", "the object of the other namespace differs");
    stage.ceph("rados --pool things --namespace other rm thing")?;

    stage.ceph("ceph osd pool create many 8")?;
    stage.ceph("rados --pool many bench 2 write -b 4096 --no-cleanup")?;
    let listed = stage.ceph("rados --pool many ls")?.lines().count();
    let counted = stage.ceph("rados --pool many bench 2 seq")?;
    ensure!(listed > 100, "only {listed} objects are listed after a benchmark:\n{counted}");
    stage.ceph("rados --pool many cleanup")?;
    ensure!(stage.ceph("rados --pool many ls")?.trim().is_empty(), "objects are left after the clean-up");
    Ok(())
}

/// Writes, then sequential and random reads, each of which `rados bench` compares.
pub(crate) fn rados_bench(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    stage.ceph("ceph osd pool create bench 32")?;
    let seconds = if long::is_wanted() { 5 } else { 2 };
    // 500 MB at most: the cluster keeps them in memory, and is quick.
    let write = format!("bench {seconds} write -b 65536 --max-objects 8000 --no-cleanup");
    says(&stage.ceph(&format!("rados --pool bench {write}"))?, "Total writes made")?;
    for kind in ["seq", "rand"] {
        let said = stage.ceph(&format!("rados --pool bench bench {seconds} {kind}"))?;
        says(&said, "Total reads made")?;
        ensure!(!said.contains("is not correct"), "`rados bench {kind}` read something else:\n{said}");
    }
    stage.ceph("rados --pool bench cleanup").map(drop)
}

/// The life of an image.
pub(crate) fn rbd(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    ensure_pool(stage)?;
    disk::make(&stage.path("disk.raw"), 2)?;

    stage.ceph("rbd create --size 64M --image-feature layering rbd/one")?;
    stage.ceph("rbd create --size 64M --object-size 1M --stripe-unit 64K --stripe-count 4 rbd/two")?;
    let listed = stage.ceph("rbd ls rbd")?;
    ensure!(listed.split_whitespace().eq(["one", "two"]), "`rbd ls` says {listed}");
    let info = json(&stage.ceph("rbd info --format json rbd/one")?)?;
    ensure!(info["size"] == 64 << 20 && info["object_size"] == 4 << 20, "`rbd info` says {info}");
    let info = json(&stage.ceph("rbd info --format json rbd/two")?)?;
    ensure!(info["stripe_unit"] == 64 << 10 && info["stripe_count"] == 4, "`rbd info` says {info}");

    stage.ceph("rbd resize --size 128M rbd/one")?;
    stage.ceph_fails("rbd resize --size 32M rbd/one")?;
    stage.ceph("rbd resize --size 32M --allow-shrink rbd/one")?;
    let info = json(&stage.ceph("rbd info --format json rbd/one")?)?;
    ensure!(info["size"] == 32 << 20, "`rbd info` says {info}");

    for features in ["layering", "layering,exclusive-lock,object-map,fast-diff,deep-flatten"] {
        stage.ceph(&format!("rbd import --image-feature {features} disk.raw rbd/disk"))?;
        stage.ceph("rbd export rbd/disk back.raw")?;
        disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;
        fs::remove_file(stage.path("back.raw"))?;
        stage.onego("--conf ceph.conf rbd export rbd/disk back.raw")?;
        disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;
        fs::remove_file(stage.path("back.raw"))?;
        stage.ceph("rbd rm rbd/disk")?;
    }
    for kind in ["write", "read"] {
        let line = format!("rbd bench --io-type {kind} --io-size 4K --io-threads 16 --io-total 32M rbd/two");
        says(&stage.ceph(&line)?, "ops/sec")?;
    }
    stage.ceph("rbd rename rbd/one rbd/three")?;
    stage.ceph("rbd rm rbd/three")?;
    stage.ceph("rbd rm rbd/two")?;
    ensure!(stage.ceph("rbd ls rbd")?.trim().is_empty(), "images are left");
    stage.ceph_fails("rbd info rbd/three").map(drop)
}

/// Images, objects and fio in version 1 of the messenger's protocol, the only one that the cluster offers.
pub(crate) fn v1(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--messenger v1")?;
    says(&stage.ceph("ceph mon dump")?, "v1:")?;
    ensure_pool(stage)?;
    disk::make(&stage.path("disk.raw"), 3)?;
    stage.ceph("rbd import --image-feature layering disk.raw rbd/disk")?;
    stage.ceph("rbd export rbd/disk theirs.raw")?;
    stage.onego("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    for exported in ["theirs.raw", "ours.raw"] {
        disk::compare(&stage.path("disk.raw"), &stage.path(exported))?;
    }
    stage.ceph("rados --pool rbd bench 3 write -b 65536 --max-objects 4000 --no-cleanup")?;
    let said = stage.ceph("rados --pool rbd bench 3 seq")?;
    ensure!(!said.contains("is not correct"), "`rados bench seq` read something else:\n{said}");
    fio_verifies_an_image(stage)
}

/// fio writes through librbd and through librados, and reads back what it wrote.
pub(crate) fn fio(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    ensure_pool(stage)?;
    fio_verifies_an_image(stage)?;
    let engine = "--ioengine=rados --conf=ceph.conf --size=16m --nrfiles=8";
    let line = format!("fio --name=objects --rw=randwrite --bs=4k {engine} {FIO}");
    fio_without_errors(&stage.ceph(&line)?)
}
