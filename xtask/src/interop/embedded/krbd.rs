//! The kernel's own client on our embedded cluster: it maps an image in a guest.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::{Guest, RBD};
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// What is done in the guest, after the lines that say with what.
const SCRIPT: &str = concat!(
    include_str!("../../guest/files.sh"),
    include_str!("../../guest/verify.sh"),
    include_str!("krbd.sh")
);

/// The programs of the host that the script runs.
const PROGRAMS: &[&str] = &["fio", "mke2fs"];

/// The port of the monitor, and the client's options.
const OPTIONS: &[(u16, &str)] = &[
    (3300, "ms_mode=crc"),
    (3300, "ms_mode=prefer-crc"),
    (6789, "ms_mode=legacy"),
    (6789, "ms_mode=legacy,nocrc"),
];

/// The same where the cluster wants keys.
const OPTIONS_WITH_KEY: &[(u16, &str)] = &[
    (3300, "ms_mode=crc"),
    (3300, "ms_mode=prefer-secure"),
    (3300, "ms_mode=secure"),
    (6789, "ms_mode=legacy"),
    (6789, "ms_mode=legacy,nocrc"),
];

/// File systems and raw devices keep what is written to them, in every mode in which the kernel connects.
pub(crate) fn modes(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    works(stage, OPTIONS, "")
}

/// The same with cephx: encrypted, with checksums, and with signed messages.
pub(crate) fn modes_with_key(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--auth cephx")?;
    let keyring = fs::read_to_string(stage.path("ceph.client.admin.keyring"))?;
    let key = keyring.lines().find_map(|line| line.trim().strip_prefix("key = "));
    works(stage, OPTIONS_WITH_KEY, &format!(",secret={}", key.context("the keyring has no key")?))
}

fn works(stage: &Stage, modes: &[(u16, &str)], more: &str) -> Result<()> {
    let guest = Guest::prepare(stage, &RBD)?;
    stage.onego("--conf ceph.conf rbd create rbd/disk --size 128M")?;
    let said = guest.run(stage, &script(modes, more), PROGRAMS)?;
    for (_, mode) in modes {
        let works = said.lines().any(|line| line.starts_with(&format!("works: {mode}{more} ")));
        ensure!(works, "the guest does not say that {mode} works:\n{said}");
    }
    Ok(())
}

fn script(modes: &[(u16, &str)], more: &str) -> String {
    let mut script = format!("MONITOR={ADDRESS}\ncat > /tmp/options <<END\n");
    for (port, mode) in modes {
        script += &format!("{port} {mode}{more}\n");
    }
    script + "END\n" + SCRIPT
}
