//! Keys, tickets and encryption, with real clusters and with Ceph's programs.

use super::images;
use crate::cluster::{ADDRESS, Embedded, RealCeph, Stage};
use crate::interop::bench::Background;
use crate::interop::disk;
use crate::interop::steps::{ensure_pool, says};
use anyhow::{Result, ensure};
use std::fs;

/// Another key than anybody's.
const WRONG_KEY: &str = "AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFg==";

/// We use a real cluster that wants keys, with checksums and encrypted, and renew tickets that are good for seconds.
pub(crate) fn client(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start_with_cephx(stage, "")?;
    disk::make(&stage.path("disk.raw"), 1)?;
    for mode in ["crc", "secure", "prefer-crc", "prefer-secure"] {
        images::round_trip(stage, |line| stage.onego(&format!("--conf ceph.conf --ms-mode {mode} {line}")))?;
    }
    refused(stage)?;
    version_one(stage)?;
    // Tickets for the OSD are good for ten seconds, and the session with the monitor for fifteen.
    let loads = [("crc", "--ms-mode crc"), ("secure", "--ms-mode secure"), ("v1", "--messenger v1")];
    let loads = loads.map(|(name, options)| Background::start(stage, name, options, "randrw", 25));
    for load in loads {
        load?.finish(stage)?;
    }
    Ok(())
}

/// The same in version 1 of the messenger's protocol, where messages are signed.
fn version_one(stage: &Stage) -> Result<()> {
    let onego = |line: &str| stage.onego(&format!("--messenger v1 {line}"));
    onego("--conf ceph.conf rbd import disk.raw rbd/disk")?;
    onego("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("ours.raw"))?;
    fs::remove_file(stage.path("ours.raw"))?;
    onego("--conf ceph.conf rbd rm rbd/disk")?;
    let said = stage.onego_fails("--messenger v1 --conf ceph.conf --keyfile wrong.key rbd ls rbd")?;
    let said = String::from_utf8_lossy(&said.stderr);
    ensure!(said.contains("refused client.admin"), "a wrong key in version 1 is told {said}");
    Ok(())
}

/// On a cluster of Ceph 20, users with keys of both types: its own prefers "aes256k", and one from before has "aes".
pub(crate) fn both_types_of_keys(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start_with_cephx(stage, "")?;
    disk::make(&stage.path("disk.raw"), 1)?;
    stage.ceph("ceph mon set auth_allowed_ciphers aes,aes256k")?;
    // What the services' own keys are decides about the session keys of those who could have better ones.
    for cipher in ["aes256k", "aes"] {
        stage.ceph(&format!("ceph mon set auth_service_cipher {cipher}"))?;
        for key in ["aes256k", "aes"] {
            let name = format!("client.{key}-{cipher}");
            let caps = ["mon", "allow *", "osd", "allow *", "--key_type", key];
            let made = stage.ceph_words(&[&["ceph", "auth", "get-or-create", &name], &caps[..]].concat())?;
            let keyring = stage.path("user.keyring");
            fs::write(&keyring, made)?;
            for options in ["--ms-mode crc", "--ms-mode secure", "--messenger v1"] {
                let user = format!("--conf ceph.conf --id {key}-{cipher} --keyring user.keyring {options}");
                stage.onego(&format!("{user} rbd import disk.raw rbd/disk"))?;
                stage.onego(&format!("{user} rbd export rbd/disk ours.raw"))?;
                disk::compare(&stage.path("disk.raw"), &stage.path("ours.raw"))?;
                fs::remove_file(stage.path("ours.raw"))?;
                stage.onego(&format!("{user} rbd rm rbd/disk"))?;
            }
        }
    }
    Ok(())
}

/// Ceph's programs use our cluster with keys in version 1 of the messenger's protocol, the only one that it offers; those
/// that know keys of type "aes256k" with such a key, too.
pub(crate) fn server_v1(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--auth cephx --messenger v1 --auth-ticket-lifetime 4")?;
    says(&stage.ceph("ceph --connect-timeout 20 -s")?, "1 osds: 1 up")?;
    ensure_pool(stage)?;
    disk::make(&stage.path("disk.raw"), 1)?;
    let conf = fs::read_to_string(stage.path("ceph.conf"))?;
    let mut users = vec!["admin"];
    if stage.ceph("ceph --version")?.contains("version 20.") {
        users.push("modern");
        fs::write(stage.path("caps"), "[global]\nmon = \"allow *\"\nosd = \"allow *\"\n")?;
        let key = "--gen-key --key-type aes256k --name client.modern --caps caps";
        stage.ceph(&format!("ceph-authtool --create-keyring modern.keyring {key}"))?;
        stage.ceph("ceph auth import -i modern.keyring")?;
        fs::write(
            stage.path("ceph.conf"),
            format!("{conf}[client.modern]\nkeyring = {}\n", stage.path("modern.keyring").display()),
        )?;
    }
    for user in users {
        stage.ceph(&format!("ceph --id {user} osd pool ls"))?;
        stage.ceph(&format!("rbd --id {user} import --image-feature layering disk.raw rbd/disk"))?;
        images::both_export(
            stage,
            |line| stage.onego(&format!("--conf ceph.conf --id {user} {line}")),
            |line| stage.ceph(&format!("{line} --id {user}")),
        )?;
        stage.ceph(&format!(
            "rados --id {user} --pool rbd bench 6 write --block-size 4096 --max-objects 8000"
        ))?;
        stage.ceph(&format!("rbd --id {user} rm rbd/disk"))?;
    }
    Ok(())
}

/// Ceph's programs use our cluster with keys, with checksums and encrypted; those with another key do not.
pub(crate) fn server(stage: &Stage) -> Result<()> {
    encrypted_only(stage)?;
    // Tickets are renewed every few seconds, and their keys change.
    let _cluster = Embedded::start(stage, "--auth cephx --memory 1G --auth-ticket-lifetime 4")?;
    disk::make(&stage.path("disk.raw"), 1)?;
    for mode in ["crc", "secure"] {
        let modes = format!("--ms-client-mode {mode} --ms-mon-client-mode {mode}");
        stage.ceph(&format!("rbd {modes} import --image-feature layering disk.raw rbd/disk"))?;
        images::both_export(
            stage,
            |line| stage.onego(&format!("--conf ceph.conf --ms-mode {mode} {line}")),
            |line| stage.ceph(&format!("{line} {modes}")),
        )?;
        stage
            .ceph(&format!("rados {modes} --pool rbd bench 3 write --block-size 65536 --max-objects 4000"))?;
        stage.ceph(&format!("rbd {modes} rm rbd/disk"))?;
    }
    let load = Background::start(stage, "renewed", "", "randrw", 12)?;
    stage.ceph("rados --pool rbd bench 12 write --block-size 4096 --max-objects 20000")?;
    load.finish(stage)?;
    let shown = stage.ceph("ceph auth get-key client.admin")?;
    let keyring = fs::read_to_string(stage.path("ceph.client.admin.keyring"))?;
    ensure!(keyring.contains(shown.trim()), "`ceph auth get-key` says another key than the keyring has");
    refused(stage)?;
    let keyring = format!("[client.admin]\n\tkey = {WRONG_KEY}\n");
    fs::write(stage.path("wrong.keyring"), keyring)?;
    stage.ceph_fails("ceph --keyring wrong.keyring --connect-timeout 10 status")?;
    stage.ceph_fails("ceph --auth-client-required none --connect-timeout 10 status").map(drop)
}

/// A cluster that wants encryption gives it to who can, and refuses who will not.
fn encrypted_only(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--auth cephx --messenger v2 --secure-only")?;
    stage.ceph("ceph osd pool ls")?;
    stage.ceph("rbd create --size 1M rbd/secret")?;
    stage.onego("--conf ceph.conf --ms-mode secure rbd rm rbd/secret")?;
    let said = stage.onego_fails("--conf ceph.conf --ms-mode crc rbd ls rbd")?;
    let said = String::from_utf8_lossy(&said.stderr);
    ensure!(said.contains("the peer allows connection modes [2]"), "in crc mode we are told {said}");
    stage.ceph_fails("ceph --ms-mon-client-mode crc --connect-timeout 5 osd pool ls").map(drop)
}

/// A user with the wrong key, or none, is told so, and no part of a key is shown.
fn refused(stage: &Stage) -> Result<()> {
    fs::write(stage.path("wrong.key"), WRONG_KEY)?;
    for (line, reason) in [
        ("--conf ceph.conf --keyfile wrong.key rbd ls rbd", "refused client.admin"),
        ("--conf ceph.conf --id nobody --keyfile wrong.key rbd ls rbd", "refused client.nobody"),
        ("--conf ceph.conf --id nobody rbd ls rbd", "the key of client.nobody"),
    ] {
        let said = stage.onego_fails(line)?;
        let said = String::from_utf8_lossy(&said.stderr);
        ensure!(said.contains(reason), "`onego {line}` at {ADDRESS} says {said}");
        ensure!(!said.contains(&WRONG_KEY[..12]), "`onego {line}` shows the key");
    }
    Ok(())
}
