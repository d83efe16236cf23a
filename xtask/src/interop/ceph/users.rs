//! Users who may do only some things, alike on real clusters and on ours.

use crate::cluster::{Embedded, RealCeph, Stage};
use crate::interop::disk;
use crate::interop::steps::fio_without_errors;
use anyhow::{Result, ensure};
use std::fs;

/// The users, what they may ask of monitors, and what they may do with objects.
const USERS: [(&str, &str, &str); 3] = [
    ("images", "profile rbd", "profile rbd pool=rbd"),
    ("reader", "profile rbd", "profile rbd-read-only pool=rbd"),
    ("mine", "allow r", "allow rwx pool=other object_prefix mine, allow r pool=other namespace=shared"),
];

/// On a real cluster.
pub(crate) fn on_real_ceph(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start_with_cephx(stage, "")?;
    everything(stage)
}

/// On our embedded cluster.
pub(crate) fn on_ours(stage: &Stage) -> Result<()> {
    let cluster = Embedded::start(stage, "--auth cephx --memory 1G")?;
    everything(stage)?;
    changes(stage)?;
    drop(cluster);
    outlive_it(stage)
}

/// Users in a data directory are there again after the cluster was killed.
fn outlive_it(stage: &Stage) -> Result<()> {
    let cluster = Embedded::start(stage, "--auth cephx --data data")?;
    stage.ceph_words(&["ceph", "auth", "add", "client.kept", "mon", "profile rbd"])?;
    let before = stage.ceph("ceph auth ls --format json")?;
    ensure!(before.contains("client.kept"), "`ceph auth ls` says {before}");
    // Killed, not stopped.
    drop(cluster);
    let _cluster = Embedded::start(stage, "--data data")?;
    let after = stage.ceph("ceph auth ls --format json")?;
    ensure!(before == after, "`ceph auth ls` says {after}, and said {before} before");
    Ok(())
}

/// Makes the users and their keyrings, and says in `ceph.conf` where those are.
fn make(stage: &Stage) -> Result<()> {
    let mut conf = fs::read_to_string(stage.path("ceph.conf"))?;
    for (id, mon, osd) in USERS {
        let name = format!("client.{id}");
        let keyring = stage.ceph_words(&["ceph", "auth", "get-or-create", &name, "mon", mon, "osd", osd])?;
        ensure!(keyring.starts_with(&format!("[{name}]\n\tkey = ")), "the keyring is {keyring}");
        fs::write(stage.path(&format!("{id}.keyring")), keyring)?;
        conf += &format!("[{name}]\nkeyring = {}\n", stage.path(&format!("{id}.keyring")).display());
        let shown = stage.ceph(&format!("ceph auth get {name}"))?;
        ensure!(shown.contains(&format!("caps osd = \"{osd}\"")), "`ceph auth get` says {shown}");
    }
    Ok(fs::write(stage.path("ceph.conf"), conf)?)
}

fn everything(stage: &Stage) -> Result<()> {
    stage.ceph("ceph osd pool create other 8")?;
    stage.ceph("ceph osd pool application enable other rbd")?;
    make(stage)?;
    disk::make(&stage.path("disk.raw"), 4)?;
    for mode in ["crc", "secure"] {
        let modes = format!("--ms-client-mode {mode} --ms-mon-client-mode {mode}");
        theirs(stage, &modes)?;
        ours(stage, mode)?;
        fio(stage, mode)?;
    }
    objects(stage)?;
    refused_by_the_monitor(stage)
}

/// Ceph's programs do what the users may do and are refused the rest.
fn theirs(stage: &Stage, modes: &str) -> Result<()> {
    stage.ceph(&format!("rbd --id images {modes} import --image-feature layering disk.raw rbd/disk"))?;
    for id in ["images", "reader"] {
        stage.ceph(&format!("rbd --id {id} {modes} export rbd/disk theirs.raw"))?;
        disk::compare(&stage.path("disk.raw"), &stage.path("theirs.raw"))?;
        fs::remove_file(stage.path("theirs.raw"))?;
    }
    for line in [
        "rbd --id images create --size 1M other/disk",
        "rbd --id images ls other",
        "rbd --id reader create --size 1M rbd/another",
        "rbd --id reader rm rbd/disk",
        "rbd --id reader bench --io-type write --io-total 64K --io-size 4K rbd/disk",
        "rbd --id mine ls rbd",
    ] {
        refused(stage, &format!("{line} {modes}"))?;
    }
    stage.ceph(&format!("rbd --id images {modes} rm rbd/disk")).map(drop)
}

/// So do ours.
fn ours(stage: &Stage, mode: &str) -> Result<()> {
    let options = |id: &str| format!("--conf ceph.conf --ms-mode {mode} --id {id}");
    stage.onego(&format!("{} rbd import disk.raw rbd/disk", options("images")))?;
    for id in ["images", "reader"] {
        stage.onego(&format!("{} rbd export rbd/disk ours.raw", options(id)))?;
        disk::compare(&stage.path("disk.raw"), &stage.path("ours.raw"))?;
        fs::remove_file(stage.path("ours.raw"))?;
    }
    for (id, line) in [
        ("images", "rbd ls other"),
        ("images", "rbd create other/disk --size 1M"),
        ("reader", "rbd create rbd/another --size 1M"),
        ("reader", "rbd rm rbd/disk"),
        ("mine", "rbd ls rbd"),
    ] {
        let said = stage.onego_fails(&format!("{} {line}", options(id)))?;
        let said = String::from_utf8_lossy(&said.stderr);
        ensure!(said.contains("capabilities"), "`onego {line}` as {id} says {said}");
    }
    stage.onego(&format!("{} rbd rm rbd/disk", options("images"))).map(drop)
}

/// fio writes and verifies an image as a user who may; as one who may not it does nothing.
fn fio(stage: &Stage, mode: &str) -> Result<()> {
    let conf = fs::read_to_string(stage.path("ceph.conf"))?;
    let modes = format!("[client]\nms client mode = {mode}\nms mon client mode = {mode}\n");
    fs::write(stage.path("ceph.conf"), format!("{conf}{modes}"))?;
    stage.ceph("rbd --id images create --size 32M rbd/fio")?;
    let line = |id: &str| {
        format!(
            "fio --name=users --rw=randrw --bs=16k --size=16m --ioengine=rbd --clientname={id} --pool=rbd \
             --rbdname=fio --iodepth=16 --verify=crc32c --verify_fatal=1 --output-format=json"
        )
    };
    fio_without_errors(&stage.ceph(&line("images"))?)?;
    stage.ceph_fails(&line("reader"))?;
    stage.ceph("rbd --id images rm rbd/fio")?;
    Ok(fs::write(stage.path("ceph.conf"), conf)?)
}

/// Prefixes and namespaces bound what `rados` does.
fn objects(stage: &Stage) -> Result<()> {
    fs::write(stage.path("small"), disk::Random(5).bytes(1 << 20))?;
    stage.ceph("rados --id mine --pool other put mine-1 small")?;
    stage.ceph("rados --id mine --pool other get mine-1 back")?;
    disk::compare(&stage.path("small"), &stage.path("back"))?;
    stage.ceph("rados --pool other --namespace shared put theirs small")?;
    stage.ceph("rados --id mine --pool other --namespace shared stat theirs")?;
    for line in [
        "rados --id mine --pool other put theirs small",
        "rados --id mine --pool other --namespace shared put theirs small",
        "rados --id mine --pool other ls",
        "rados --id mine --pool rbd put mine-1 small",
        "rados --id images --pool other put thing small",
        "rados --id reader --pool rbd put thing small",
    ] {
        refused(stage, line)?;
    }
    Ok(())
}

/// What changes the cluster, or shows keys, is not for users.
fn refused_by_the_monitor(stage: &Stage) -> Result<()> {
    stage.ceph("ceph --id images osd pool ls")?;
    stage.ceph("ceph --id images osd blocklist add 10.9.8.7:0/123")?;
    for line in [
        "ceph --id images osd blocklist rm 10.9.8.7:0/123",
        "ceph --id images osd pool create third 8",
        "ceph --id images auth ls",
        "ceph --id mine auth get client.images",
        "ceph --id mine config set global debug_ms 1",
    ] {
        let said = stage.ceph_fails(line)?;
        let said = String::from_utf8_lossy(&said.stderr);
        ensure!(said.contains("EACCES"), "`{line}` says {said}");
    }
    Ok(())
}

fn refused(stage: &Stage, line: &str) -> Result<()> {
    let said = stage.ceph_fails(line)?;
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    let named = ["Operation not permitted", "EPERM", "(1)"].iter().any(|word| said.contains(word));
    ensure!(named, "`{line}` says {said}");
    Ok(())
}

/// The commands that change users, as `ceph` gives them.
fn changes(stage: &Stage) -> Result<()> {
    stage.ceph_words(&["ceph", "auth", "add", "client.new", "mon", "allow r"])?;
    stage.ceph_words(&[
        "ceph",
        "auth",
        "caps",
        "client.new",
        "mon",
        "profile rbd",
        "osd",
        "allow rw pool=other",
    ])?;
    let exported = stage.ceph("ceph auth export client.new")?;
    ensure!(exported.contains("caps osd = \"allow rw pool=other\""), "`ceph auth export` says {exported}");
    let key = stage.ceph("ceph auth print-key client.new")?;
    let listed = stage.ceph("ceph auth ls")?;
    ensure!(listed.contains(key.trim()), "`ceph auth ls` says {listed}");
    fs::write(stage.path("new.keyring"), exported)?;
    stage.ceph("ceph auth rm client.new")?;
    stage.ceph_fails("ceph auth get client.new")?;
    stage.ceph_fails("ceph --id new --keyring new.keyring --connect-timeout 10 osd pool ls")?;
    stage.ceph("ceph auth import -i new.keyring")?;
    let again = stage.ceph("ceph auth get-or-create-key client.new")?;
    ensure!(again.trim() == key.trim(), "another key was made: {again}");
    stage.ceph("rados --id new --keyring new.keyring --pool other put thing new.keyring")?;
    let said = stage.ceph_words_fail(&["ceph", "auth", "caps", "client.new", "osd", "allow nothing"])?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.contains("capability parse failed"), "wrong capabilities get {said}");
    Ok(())
}
