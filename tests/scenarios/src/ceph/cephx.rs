//! Keys, tickets and encryption, with real clusters and with Ceph's programs.

use super::{both_export, onego_fails, round_trip, script};
use crate::bench::Background;
use crate::steps::{ensure_pool, says};
use anyhow::{Result, ensure};
use onego_sandbox::{RealCeph, Release, Sandbox, Server, disk};

/// A key that no user has.
const WRONG_KEY: &str = "AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFg==";

/// Uses a real cluster with cephx in both protocol versions and renews tickets that expire within seconds.
pub(super) fn client(sandbox: &Sandbox) -> Result<()> {
    let _ceph = RealCeph::start_with_cephx(sandbox, "")?;
    disk::make(&sandbox.path("disk.raw"), 1)?;
    for mode in ["crc", "secure", "prefer-crc", "prefer-secure"] {
        round_trip(sandbox, &format!("--conf ceph.conf --ms-mode {mode}"))?;
    }
    refused(sandbox)?;
    round_trip(sandbox, "--messenger v1 --conf ceph.conf")?;
    let wrong = "--messenger v1 --conf ceph.conf --keyfile wrong.key rbd ls rbd";
    onego_fails(sandbox, wrong, "refused client.admin")?;
    // Tickets for the OSD expire after 10 s, and the session with the monitor after 15 s.
    let loads = [("crc", "--ms-mode crc"), ("secure", "--ms-mode secure"), ("v1", "--messenger v1")];
    let loads = loads.map(|(name, options)| Background::start(sandbox, name, options, "randrw", 25));
    for load in loads {
        load?.finish(sandbox)?;
    }
    Ok(())
}

/// Uses a Ceph 20 cluster with keys of type "aes256k", its default, and with older "aes" keys.
pub(super) fn both_types_of_keys(sandbox: &Sandbox) -> Result<()> {
    let _ceph = RealCeph::start_with_cephx(sandbox, "")?;
    disk::make(&sandbox.path("disk.raw"), 1)?;
    script(sandbox, "ceph mon set auth_allowed_ciphers aes,aes256k")?;
    // The services' own keys limit the session keys of users with better ones.
    for cipher in ["aes256k", "aes"] {
        sandbox.ceph(&format!("ceph mon set auth_service_cipher {cipher}"))?;
        for key in ["aes256k", "aes"] {
            let name = format!("client.{key}-{cipher}");
            let caps = ["mon", "allow *", "osd", "allow *", "--key_type", key];
            let keyring =
                sandbox.ceph_words(&[&["ceph", "auth", "get-or-create", &name], &caps[..]].concat())?;
            sandbox.write("user.keyring", keyring)?;
            for mode in ["--ms-mode crc", "--ms-mode secure", "--messenger v1"] {
                round_trip(
                    sandbox,
                    &format!("--conf ceph.conf --id {key}-{cipher} --keyring user.keyring {mode}"),
                )?;
            }
        }
    }
    Ok(())
}

/// Runs Ceph's programs on a cluster of ours that offers only protocol version 1; from Ceph 20 on also with a key of
/// type "aes256k".
pub(super) fn server_v1(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "--auth cephx --messenger v1 --auth-ticket-lifetime 4")?;
    says(&sandbox.ceph("ceph --connect-timeout 20 -s")?, "1 osds: 1 up")?;
    ensure_pool(sandbox)?;
    disk::make(&sandbox.path("disk.raw"), 1)?;
    let mut users = vec!["admin"];
    if sandbox.release() == Release::Tentacle {
        users.push("modern");
        sandbox.write("caps", "[global]\nmon = \"allow *\"\nosd = \"allow *\"\n")?;
        let key = "--gen-key --key-type aes256k --name client.modern --caps caps";
        let steps = format!("ceph-authtool --create-keyring modern.keyring {key}");
        script(sandbox, &format!("{steps}; ceph auth import -i modern.keyring"))?;
        let keyring = format!("[client.modern]\nkeyring = {}\n", sandbox.path("modern.keyring").display());
        sandbox.write("ceph.conf", sandbox.read("ceph.conf")? + &keyring)?;
    }
    for user in users {
        let import = format!("rbd --id {user} import --image-feature layering disk.raw rbd/disk");
        script(sandbox, &format!("ceph --id {user} osd pool ls; {import}"))?;
        let [ours, theirs] = [format!("--conf ceph.conf --id {user}"), format!("--id {user}")];
        both_export(sandbox, "rbd/disk", "disk.raw", [&ours, &theirs])?;
        let bench = "--pool rbd bench 6 write --block-size 4096 --max-objects 8000";
        script(sandbox, &format!("rados --id {user} {bench}; rbd --id {user} rm rbd/disk"))?;
    }
    Ok(())
}

/// Runs Ceph's programs on our cluster with keys, with checksums and encrypted, and with wrong keys.
pub(super) fn server(sandbox: &Sandbox) -> Result<()> {
    encrypted_only(sandbox)?;
    // Tickets are renewed every few seconds, and their keys change.
    let _cluster = Server::cluster(sandbox, "--auth cephx --memory 1G --auth-ticket-lifetime 4")?;
    disk::make(&sandbox.path("disk.raw"), 1)?;
    for mode in ["crc", "secure"] {
        let [ours, theirs] = [
            format!("--conf ceph.conf --ms-mode {mode}"),
            format!("--ms-client-mode {mode} --ms-mon-client-mode {mode}"),
        ];
        sandbox.ceph(&format!("rbd {theirs} import --image-feature layering disk.raw rbd/disk"))?;
        both_export(sandbox, "rbd/disk", "disk.raw", [&ours, &theirs])?;
        let bench = "--pool rbd bench 3 write --block-size 65536 --max-objects 4000";
        script(sandbox, &format!("rados {theirs} {bench}; rbd {theirs} rm rbd/disk"))?;
    }
    let load = Background::start(sandbox, "renewed", "", "randrw", 12)?;
    sandbox.ceph("rados --pool rbd bench 12 write --block-size 4096 --max-objects 20000")?;
    load.finish(sandbox)?;
    let shown = sandbox.ceph("ceph auth get-key client.admin")?;
    let keyring = sandbox.read("ceph.client.admin.keyring")?;
    ensure!(keyring.contains(shown.trim()), "`ceph auth get-key` shows another key than the keyring");
    refused(sandbox)?;
    sandbox.write("wrong.keyring", format!("[client.admin]\n\tkey = {WRONG_KEY}\n"))?;
    sandbox.ceph_fails("ceph --keyring wrong.keyring --connect-timeout 10 status")?;
    sandbox.ceph_fails("ceph --auth-client-required none --connect-timeout 10 status").map(drop)
}

/// A cluster that requires encryption refuses clients that do not offer it.
fn encrypted_only(sandbox: &Sandbox) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "--auth cephx --messenger v2 --secure-only")?;
    let remove = "onego --conf ceph.conf --ms-mode secure rbd rm rbd/secret";
    script(sandbox, &format!("ceph osd pool ls; rbd create --size 1M rbd/secret; {remove}"))?;
    let plain = "--conf ceph.conf --ms-mode crc rbd ls rbd";
    onego_fails(sandbox, plain, "the peer allows connection modes [2]")?;
    sandbox.ceph_fails("ceph --ms-mon-client-mode crc --connect-timeout 5 osd pool ls").map(drop)
}

/// Users with a wrong key or none get a message that shows no part of a key.
fn refused(sandbox: &Sandbox) -> Result<()> {
    sandbox.write("wrong.key", WRONG_KEY)?;
    for (options, reason) in [
        ("--keyfile wrong.key", "refused client.admin"),
        ("--id nobody --keyfile wrong.key", "refused client.nobody"),
        ("--id nobody", "the key of client.nobody"),
    ] {
        let message = onego_fails(sandbox, &format!("--conf ceph.conf {options} rbd ls rbd"), reason)?;
        ensure!(!message.contains(&WRONG_KEY[..12]), "`onego {options}` shows the key");
    }
    Ok(())
}
