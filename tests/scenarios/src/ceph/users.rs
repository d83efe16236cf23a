//! Users with limited capabilities, who have the same rights on real clusters and on ours.

use super::{each_step, onego_fails, same_file, script};
use crate::steps::{fio_without_errors, says, says_error};
use anyhow::{Result, ensure};
use onego_sandbox::{RealCeph, Sandbox, Server, disk, sh};

/// Users with their capabilities for monitors and OSDs.
const USERS: [(&str, &str, &str); 3] = [
    ("images", "profile rbd", "profile rbd pool=rbd"),
    ("reader", "profile rbd", "profile rbd-read-only pool=rbd"),
    ("mine", "allow r", "allow rwx pool=other object_prefix mine, allow r pool=other namespace=shared"),
];

pub(super) fn on_real_ceph(sandbox: &Sandbox) -> Result<()> {
    let _ceph = RealCeph::start_with_cephx(sandbox, "")?;
    capabilities(sandbox)
}

pub(super) fn on_ours(sandbox: &Sandbox) -> Result<()> {
    let cluster = Server::cluster(sandbox, "--auth cephx --memory 1G")?;
    capabilities(sandbox)?;
    commands(sandbox)?;
    drop(cluster);
    crash(sandbox)
}

/// Users in a data directory survive a crash of the cluster.
fn crash(sandbox: &Sandbox) -> Result<()> {
    let cluster = Server::cluster(sandbox, "--auth cephx --data data")?;
    sandbox.ceph_words(&["ceph", "auth", "add", "client.kept", "mon", "profile rbd"])?;
    let before = sandbox.ceph("ceph auth ls --format json")?;
    says(&before, "client.kept")?;
    // SIGKILL.
    drop(cluster);
    let _cluster = Server::cluster(sandbox, "--data data")?;
    let after = sandbox.ceph("ceph auth ls --format json")?;
    ensure!(before == after, "`ceph auth ls` says {after}, and said {before} before the crash");
    Ok(())
}

fn capabilities(sandbox: &Sandbox) -> Result<()> {
    script(sandbox, "ceph osd pool create other 8; ceph osd pool application enable other rbd")?;
    create(sandbox)?;
    disk::make(&sandbox.path("disk.raw"), 4)?;
    for mode in ["crc", "secure"] {
        theirs(sandbox, &format!("--ms-client-mode {mode} --ms-mon-client-mode {mode}"))?;
        ours(sandbox, mode)?;
        fio(sandbox, mode)?;
    }
    objects(sandbox)?;
    monitor(sandbox)
}

/// Creates the users and adds their keyrings to `ceph.conf`.
fn create(sandbox: &Sandbox) -> Result<()> {
    let mut conf = sandbox.read("ceph.conf")?;
    for (id, mon, osd) in USERS {
        let name = format!("client.{id}");
        let keyring =
            sandbox.ceph_words(&["ceph", "auth", "get-or-create", &name, "mon", mon, "osd", osd])?;
        ensure!(keyring.starts_with(&format!("[{name}]\n\tkey = ")), "the keyring is {keyring}");
        let file = format!("{id}.keyring");
        sandbox.write(&file, keyring)?;
        conf += &format!("[{name}]\nkeyring = {}\n", sandbox.path(&file).display());
        says(&sandbox.ceph(&format!("ceph auth get {name}"))?, &format!("caps osd = \"{osd}\""))?;
    }
    sandbox.write("ceph.conf", conf)
}

/// Runs Ceph's programs as these users.
fn theirs(sandbox: &Sandbox, modes: &str) -> Result<()> {
    sandbox.ceph(&format!("rbd --id images {modes} import --image-feature layering disk.raw rbd/disk"))?;
    for id in ["images", "reader"] {
        sandbox.ceph(&format!("rbd --id {id} {modes} export rbd/disk theirs.raw"))?;
        same_file(sandbox, "disk.raw", "theirs.raw")?;
    }
    let steps = "rbd --id images create --size 1M other/disk; rbd --id images ls other
rbd --id reader create --size 1M rbd/another; rbd --id reader rm rbd/disk
rbd --id reader bench --io-type write --io-total 64K --io-size 4K rbd/disk; rbd --id mine ls rbd";
    each_step(steps, |line| not_permitted(sandbox, &format!("{line} {modes}")))?;
    sandbox.ceph(&format!("rbd --id images {modes} rm rbd/disk")).map(drop)
}

/// Runs our programs as these users.
fn ours(sandbox: &Sandbox, mode: &str) -> Result<()> {
    let options = format!("--conf ceph.conf --ms-mode {mode}");
    sandbox.onego(&format!("{options} --id images rbd import disk.raw rbd/disk"))?;
    for id in ["images", "reader"] {
        sandbox.onego(&format!("{options} --id {id} rbd export rbd/disk ours.raw"))?;
        same_file(sandbox, "disk.raw", "ours.raw")?;
    }
    let steps = "--id images rbd ls other; --id images rbd create other/disk --size 1M
--id reader rbd create rbd/another --size 1M; --id reader rbd rm rbd/disk; --id mine rbd ls rbd";
    each_step(steps, |line| onego_fails(sandbox, &format!("{options} {line}"), "capabilities").map(drop))?;
    sandbox.onego(&format!("{options} --id images rbd rm rbd/disk")).map(drop)
}

/// Verifies an image by fio as a user who may write, and fails as one who may not.
fn fio(sandbox: &Sandbox, mode: &str) -> Result<()> {
    let conf = sandbox.read("ceph.conf")?;
    let modes = format!("[client]\nms client mode = {mode}\nms mon client mode = {mode}\n");
    sandbox.write("ceph.conf", format!("{conf}{modes}"))?;
    sandbox.ceph("rbd --id images create --size 32M rbd/fio")?;
    let line = |id: &str| {
        format!(
            "fio --name=users --rw=randrw --bs=16k --size=16m --ioengine=rbd --clientname={id} --pool=rbd \
             --rbdname=fio --iodepth=16 --verify=crc32c --verify_fatal=1 --output-format=json"
        )
    };
    fio_without_errors(&sandbox.ceph(&line("images"))?)?;
    sandbox.ceph_fails(&line("reader"))?;
    sandbox.ceph("rbd --id images rm rbd/fio")?;
    sandbox.write("ceph.conf", conf)
}

/// Limits `rados` to prefixes and namespaces.
fn objects(sandbox: &Sandbox) -> Result<()> {
    sandbox.write("small", disk::Random(5).bytes(1 << 20))?;
    let steps = "rados --id mine --pool other put mine-1 small; rados --id mine --pool other get mine-1 back
rados --pool other --namespace shared put theirs small
rados --id mine --pool other --namespace shared stat theirs";
    script(sandbox, steps)?;
    same_file(sandbox, "small", "back")?;
    let steps = "rados --id mine --pool other put theirs small
rados --id mine --pool other --namespace shared put theirs small
rados --id mine --pool other ls; rados --id mine --pool rbd put mine-1 small
rados --id images --pool other put thing small; rados --id reader --pool rbd put thing small";
    each_step(steps, |line| not_permitted(sandbox, line))
}

/// Denies users commands that change the cluster or show keys.
fn monitor(sandbox: &Sandbox) -> Result<()> {
    script(sandbox, "ceph --id images osd pool ls; ceph --id images osd blocklist add 10.9.8.7:0/123")?;
    let steps = "ceph --id images osd blocklist rm 10.9.8.7:0/123; ceph --id images osd pool create third 8
ceph --id images auth ls; ceph --id mine auth get client.images; ceph --id mine config set global debug_ms 1";
    each_step(steps, |line| says_error(&sandbox.ceph_fails(line)?, "EACCES"))
}

fn not_permitted(sandbox: &Sandbox, line: &str) -> Result<()> {
    let said = sh::both(&sandbox.ceph_fails(line)?);
    let is_named = ["Operation not permitted", "EPERM", "(1)"].iter().any(|word| said.contains(word));
    ensure!(is_named, "`{line}` says {said}");
    Ok(())
}

/// Changes users by `ceph auth`.
fn commands(sandbox: &Sandbox) -> Result<()> {
    let change = ["ceph", "auth", "caps", "client.new"];
    sandbox.ceph_words(&["ceph", "auth", "add", "client.new", "mon", "allow r"])?;
    sandbox.ceph_words(&[&change[..], &["mon", "profile rbd", "osd", "allow rw pool=other"]].concat())?;
    let exported = sandbox.ceph("ceph auth export client.new")?;
    says(&exported, "caps osd = \"allow rw pool=other\"")?;
    let key = sandbox.ceph("ceph auth print-key client.new")?;
    says(&sandbox.ceph("ceph auth ls")?, key.trim())?;
    sandbox.write("new.keyring", exported)?;
    sandbox.ceph("ceph auth rm client.new")?;
    sandbox.ceph_fails("ceph auth get client.new")?;
    sandbox.ceph_fails("ceph --id new --keyring new.keyring --connect-timeout 10 osd pool ls")?;
    sandbox.ceph("ceph auth import -i new.keyring")?;
    let again = sandbox.ceph("ceph auth get-or-create-key client.new")?;
    ensure!(again.trim() == key.trim(), "the import made another key: {again}");
    sandbox.ceph("rados --id new --keyring new.keyring --pool other put thing new.keyring")?;
    let failed = sandbox.ceph_words_fail(&[&change[..], &["osd", "allow nothing"]].concat())?;
    says_error(&failed, "capability parse failed")
}
