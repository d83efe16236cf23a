//! Ceph's own programs against our embedded cluster, each result checked.

use crate::steps::{
    FIO, each_says, ensure_pool, exports_are_whole, fio_verifies_an_image, fio_without_errors, json,
    same_files, says, says_error,
};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Daemon, Sandbox, disk, workspace};
use std::fs;
use std::time::{Duration, Instant};

/// Time a refusal may take on a busy machine. It waits for nothing.
const LIMIT: Duration = Duration::from_secs(20);

/// Time the DNS server gets to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// SRV records with priority and weight: of the monitor, with a host that does not answer first; of no address.
const RECORDS: &str = "\
srv-host=_ceph-mon._tcp.onego.test,gone.onego.test,3300,5,10
srv-host=_ceph-mon._tcp.onego.test,mon.onego.test,3300,10,20
srv-host=_old._tcp.onego.test,mon.onego.test,6789,10,20
srv-host=_empty._tcp.onego.test,nowhere.onego.test,3300,10,20
";

/// Status, maps, and the life of pools.
pub(super) fn ceph(sandbox: &Sandbox) -> Result<()> {
    let status = json(&sandbox.ceph("ceph -s --format json")?)?;
    ensure!(status["osdmap"]["num_up_osds"] == 1, "`ceph -s` prints {status}");
    sandbox.ceph("ceph osd pool create first 16")?;
    sandbox.ceph("ceph osd pool create second 64")?;
    sandbox.ceph("ceph osd pool application enable first rbd")?;
    let pools = || sandbox.ceph("ceph osd pool ls");
    says(&pools()?, "first\n")?;
    let dump = json(&sandbox.ceph("ceph osd dump --format json")?)?;
    for (name, groups) in [("first", 16), ("second", 64)] {
        let mut pools = dump["pools"].as_array().into_iter().flatten();
        let pool = pools.find(|pool| pool["pool_name"] == name);
        ensure!(pool.is_some_and(|pool| pool["pg_num"] == groups), "no {groups} groups of {name}: {dump}");
    }
    let fsid = sandbox.ceph("ceph fsid")?;
    ensure!(dump["fsid"] == fsid.trim(), "`ceph fsid` prints {fsid}");
    each_says(
        sandbox,
        &[
            ("ceph -s", "1 osds: 1 up"),
            ("ceph health", "HEALTH_"),
            ("ceph osd dump", "'first' replicated"),
            ("ceph osd lspools", "first"),
            ("ceph osd stat", "1 up"),
            ("ceph osd tree", "osd.0"),
            ("ceph mon stat", "quorum"),
            ("ceph df", "first"),
            // Ceph's map tools accept our maps.
            ("ceph osd getmap -o osdmap", ""),
            ("osdmaptool osdmap --print", "max_osd 1"),
            ("osdmaptool osdmap --test-map-pgs", "avg"),
            ("ceph osd getcrushmap -o crushmap", ""),
            ("crushtool -d crushmap", "rule replicated_rule"),
            ("ceph mon getmap -o monmap", ""),
            ("monmaptool --print monmap", "mon."),
            // A real cluster's manager answers these.
            ("timeout 20 ceph pg ls", "active+clean"),
            ("timeout 20 ceph pg dump pgs_brief", "active+clean"),
            ("timeout 20 ceph osd df", "TOTAL"),
            ("timeout 20 ceph -s", "mgr: a(active"),
            ("timeout 20 ceph tell mgr pg ls", "active+clean"),
            ("timeout 20 ceph tell mgr osd df", "TOTAL"),
        ],
    )?;
    // Commands of the manager's modules are refused at once.
    for line in ["ceph balancer status", "ceph tell mgr balancer status", "rbd perf image iostat"] {
        let start = Instant::now();
        let refused = sandbox.ceph_fails(line)?;
        ensure!(start.elapsed() < LIMIT, "`{line}` is refused after {:?}", start.elapsed());
        ensure!(!refused.stderr.trim_ascii().is_empty(), "`{line}` is refused without a reason");
    }
    // As with a real monitor, the removal of a pool takes its name twice and a confirmation.
    sandbox.ceph_fails("ceph osd pool rm first")?;
    sandbox.ceph("ceph osd pool rm first first --yes-i-really-really-mean-it")?;
    ensure!(!pools()?.contains("first"), "a removed pool is listed");
    says_error(&sandbox.ceph_fails("ceph osd no-such-command")?, "EINVAL")
}

/// Objects: data, extended attributes, omap, namespaces, and sizes.
pub(super) fn rados(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("ceph osd pool create things 8")?;
    let rados = |line: &str| sandbox.ceph(&format!("rados --pool things {line}"));
    let content = disk::Random(7).bytes(5 << 20);
    let holds = |expected: &[u8], what: &str| {
        rados("get thing out")?;
        ensure!(fs::read(sandbox.path("out"))? == expected, "{what} is not what was written");
        Ok(())
    };
    sandbox.write("in", &content)?;
    sandbox.write("tail", "the end")?;
    rados("put thing in")?;
    holds(&content, "an object")?;
    rados("append thing tail")?;
    says(&rados("stat thing")?, &format!("size {}", content.len() + 7))?;
    holds(&[&content, &b"the end"[..]].concat(), "an object with an append")?;
    rados("truncate thing 1000")?;
    holds(&content[..1000], "a truncated object")?;

    for (line, expected) in [
        ("setxattr thing colour green", ""),
        ("getxattr thing colour", "green"),
        ("listxattr thing", "colour"),
        ("rmxattr thing colour", ""),
        ("listxattr thing", ""),
        ("setomapval thing a first", ""),
        ("setomapval thing b second", ""),
        ("listomapkeys thing", "a\nb"),
        ("rmomapkey thing a", ""),
        ("listomapkeys thing", "b"),
        ("setomapval thing a first", ""),
        ("setomapheader thing top", ""),
        // Equal names in two namespaces are different objects.
        ("--namespace other put thing tail", ""),
        ("--namespace other ls", "thing"),
        ("ls", "thing"),
    ] {
        let said = rados(line)?;
        ensure!(said.trim() == expected, "`rados {line}` prints {said}");
    }
    for (question, expected) in [
        ("listomapvals thing", "|second|"),
        ("getomapval thing a", "|first|"),
        ("getomapheader thing", "|top|"),
        ("--all ls", "other"),
    ] {
        says(&rados(question)?, expected)?;
    }
    rados("--namespace other get thing out")?;
    ensure!(sandbox.read("out")? == "the end", "an object of another namespace is not what was written");
    rados("--namespace other rm thing")?;
    too_large(sandbox)?;
    many(sandbox)?;
    says_error(&sandbox.ceph_fails("rados --pool things get nothing out")?, "No such file or directory")?;
    rados("rm thing")?;
    ensure!(rados("ls")?.trim().is_empty(), "a removed object is listed");
    sandbox.ceph_fails("rados --pool nowhere ls").map(drop)
}

/// Writes of 300 MiB in one request are refused; librados does not resend them, and its connection stays usable.
fn too_large(sandbox: &Sandbox) -> Result<()> {
    sandbox.write("too_large.py", include_str!("too_large.py"))?;
    let said = sandbox.ceph("python3 too_large.py")?;
    let expected = ["large: EMSGSIZE\n", "part: EMSGSIZE\n", "small: after\n", "objects: small thing\n"];
    expected.iter().try_for_each(|expected| says(&said, expected))
}

/// A listing of many objects is complete.
fn many(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("ceph osd pool create many 8")?;
    sandbox.ceph("rados --pool many bench 2 write -b 4096 --no-cleanup")?;
    let listed = sandbox.ceph("rados --pool many ls")?.lines().count();
    let counted = sandbox.ceph("rados --pool many bench 2 seq")?;
    ensure!(listed > 100, "only {listed} objects are listed after a benchmark:\n{counted}");
    sandbox.ceph("rados --pool many cleanup")?;
    ensure!(sandbox.ceph("rados --pool many ls")?.trim().is_empty(), "objects are left after the clean-up");
    Ok(())
}

/// The life of an image.
pub(super) fn rbd(sandbox: &Sandbox) -> Result<()> {
    ensure_pool(sandbox)?;
    disk::make(&sandbox.path("disk.raw"), 2)?;
    let info_has = |image: &str, fields: &[(&str, u64)]| {
        let info = json(&sandbox.ceph(&format!("rbd info --format json rbd/{image}"))?)?;
        ensure!(fields.iter().all(|(name, value)| info[name] == *value), "`rbd info` prints {info}");
        Ok(())
    };
    sandbox.ceph("rbd create --size 64M --image-feature layering rbd/one")?;
    sandbox.ceph("rbd create --size 64M --object-size 1M --stripe-unit 64K --stripe-count 4 rbd/two")?;
    let listed = sandbox.ceph("rbd ls rbd")?;
    ensure!(listed.split_whitespace().eq(["one", "two"]), "`rbd ls` prints {listed}");
    info_has("one", &[("size", 64 << 20), ("object_size", 4 << 20)])?;
    info_has("two", &[("stripe_unit", 64 << 10), ("stripe_count", 4)])?;
    sandbox.ceph("rbd resize --size 128M rbd/one")?;
    sandbox.ceph_fails("rbd resize --size 32M rbd/one")?;
    sandbox.ceph("rbd resize --size 32M --allow-shrink rbd/one")?;
    info_has("one", &[("size", 32 << 20)])?;
    for features in ["layering", "layering,exclusive-lock,object-map,fast-diff,deep-flatten"] {
        sandbox.ceph(&format!("rbd import --image-feature {features} disk.raw rbd/disk"))?;
        both_export(sandbox)?;
        sandbox.ceph("rbd rm rbd/disk")?;
    }
    for kind in ["write", "read"] {
        let line = format!("rbd bench --io-type {kind} --io-size 4K --io-threads 16 --io-total 32M rbd/two");
        says(&sandbox.ceph(&line)?, "ops/sec")?;
    }
    sandbox.ceph("rbd rename rbd/one rbd/three")?;
    sandbox.ceph("rbd rm rbd/three")?;
    sandbox.ceph("rbd rm rbd/two")?;
    ensure!(sandbox.ceph("rbd ls rbd")?.trim().is_empty(), "images are left");
    sandbox.ceph_fails("rbd info rbd/three").map(drop)
}

/// The release's `rbd` and `onego` export what `disk.raw` has.
fn both_export(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd export rbd/disk theirs.raw")?;
    sandbox.onego("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    exports_are_whole(sandbox)
}

/// Runs `rados bench`, which compares what it reads: writes, then reads of these kinds.
fn rados_bench(sandbox: &Sandbox, seconds: u32, objects: u32, kinds: &[&str]) -> Result<()> {
    // A bound of objects, because the cluster keeps them in memory and is fast.
    let write = format!("bench {seconds} write -b 65536 --max-objects {objects} --no-cleanup");
    says(&sandbox.ceph(&format!("rados --pool rbd {write}"))?, "Total writes made")?;
    for kind in kinds {
        let said = sandbox.ceph(&format!("rados --pool rbd bench {seconds} {kind}"))?;
        says(&said, "Total reads made")?;
        ensure!(!said.contains("is not correct"), "`rados bench {kind}` read other data:\n{said}");
    }
    sandbox.ceph("rados --pool rbd cleanup").map(drop)
}

/// `rados bench` writes and reads, in sequence and at random.
pub(super) fn bench(sandbox: &Sandbox) -> Result<()> {
    rados_bench(sandbox, if workspace::is_long() { 5 } else { 2 }, 8000, &["seq", "rand"])
}

/// Images, objects and fio on a cluster that offers only version 1 of the messenger's protocol.
pub(super) fn v1(sandbox: &Sandbox) -> Result<()> {
    says(&sandbox.ceph("ceph mon dump")?, "v1:")?;
    ensure_pool(sandbox)?;
    disk::make(&sandbox.path("disk.raw"), 3)?;
    sandbox.ceph("rbd import --image-feature layering disk.raw rbd/disk")?;
    both_export(sandbox)?;
    rados_bench(sandbox, 3, 4000, &["seq"])?;
    fio_verifies_an_image(sandbox)
}

/// fio writes through librbd and through librados and verifies the data.
pub(super) fn fio(sandbox: &Sandbox) -> Result<()> {
    ensure_pool(sandbox)?;
    fio_verifies_an_image(sandbox)?;
    let engine = "--ioengine=rados --conf=ceph.conf --size=16m --nrfiles=8";
    fio_without_errors(&sandbox.ceph(&format!("fio --name=objects --rw=randwrite --bs=4k {engine} {FIO}"))?)
}

/// A blocklisted client fails with the reason; once removed from the list it works again.
pub(super) fn blocklist(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 6)?;
    sandbox.onego("--conf ceph.conf rbd import disk.raw rbd/disk")?;
    // An address without a nonce means all its clients.
    sandbox.ceph(&format!("ceph osd blocklist add {ADDRESS}:0/0 3600"))?;
    says(&sandbox.ceph("ceph osd blocklist ls")?, &format!("{ADDRESS}:0/0"))?;
    let refused = sandbox.onego_fails("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    says_error(&refused, "blocklisted")?;
    says_error(&refused, "ceph osd blocklist ls")?;
    for line in ["rbd export rbd/disk theirs.raw", "rados --pool rbd put thing disk.raw"] {
        sandbox.ceph_fails(line)?;
    }
    sandbox.ceph(&format!("ceph osd blocklist rm {ADDRESS}:0/0"))?;
    let listed = sandbox.ceph("ceph osd blocklist ls")?;
    ensure!(!listed.contains(ADDRESS), "`ceph osd blocklist ls` prints {listed}");
    sandbox.onego("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    same_files(sandbox, "disk.raw", "ours.raw")?;
    sandbox.ceph("rbd rm rbd/disk").map(drop)
}

/// Ceph's programs and ours find the monitor by the same SRV records, in a domain of the search list or a named one.
pub(super) fn dns(sandbox: &Sandbox) -> Result<()> {
    ensure_pool(sandbox)?;
    sandbox.ceph("rbd create --size 1M rbd/disk")?;
    let _server = start_dns_server(sandbox)?;
    let conf = sandbox.read("ceph.conf")?;
    let conf: Vec<&str> = conf.lines().filter(|line| !line.starts_with("mon host")).collect();
    let conf = conf.join("\n");
    ensure!(!conf.contains(ADDRESS), "ceph.conf still has the monitor's address:\n{conf}");
    let with_service =
        |file: &str, service: &str| sandbox.write(file, format!("{conf}\nmon dns srv name = {service}\n"));
    sandbox.write("searched.conf", format!("{conf}\n"))?;
    with_service("named.conf", "ceph-mon_onego.test")?;
    with_service("old.conf", "old")?;
    for file in ["searched.conf", "named.conf", "old.conf"] {
        says(&sandbox.ceph(&format!("rbd -c {file} ls rbd"))?, "disk").context(file)?;
        says(&sandbox.onego(&format!("--conf {file} rbd ls rbd"))?, "disk").context(file)?;
    }
    for (service, error) in [("nobody", "no SRV records"), ("empty", "no addresses")] {
        with_service("none.conf", service)?;
        sandbox.ceph_fails("rbd -c none.conf ls rbd")?;
        says_error(&sandbox.onego_fails("--conf none.conf rbd ls rbd")?, error)?;
    }
    Ok(())
}

/// Starts a DNS server that every process of the sandbox uses.
fn start_dns_server(sandbox: &Sandbox) -> Result<Daemon> {
    let conf = format!(
        "no-resolv\nno-hosts\nlisten-address={ADDRESS}\nbind-interfaces\nuser=root\npid-file=\nlog-queries\n\
         local=/onego.test/\nhost-record=mon.onego.test,{ADDRESS}\nhost-record=gone.onego.test,10.20.0.9\n{RECORDS}"
    );
    sandbox.write("dnsmasq.conf", conf)?;
    sandbox.write("resolv.conf", format!("nameserver {ADDRESS}\nsearch onego.test\n"))?;
    let mount = format!("mount --bind {} /etc/resolv.conf", sandbox.path("resolv.conf").display());
    sandbox.ceph(&mount)?;
    sandbox.host(&mount)?;
    let log = sandbox.path("dnsmasq.out");
    let command =
        sandbox.tool_daemon("dnsmasq --keep-in-foreground --log-facility=- --conf-file=dnsmasq.conf");
    let mut server = Daemon::spawn("dnsmasq", command, &log)?;
    let started = || fs::read_to_string(&log).is_ok_and(|said| said.contains("started"));
    server.wait_until("line `started`", PATIENCE, started)?;
    Ok(server)
}
