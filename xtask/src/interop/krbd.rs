//! The kernel's own client on our embedded cluster: it maps an image in a guest.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::Guest;
use anyhow::{Result, ensure};

/// What is done in the guest, after the lines that say with what.
const SCRIPT: &str = include_str!("krbd.sh");

/// The programs of the host that the script runs.
const PROGRAMS: &[&str] = &["fio", "mke2fs"];

/// The port of the monitor, and the client's options.
const OPTIONS: &[(u16, &str)] = &[
    (3300, "ms_mode=crc"),
    (3300, "ms_mode=prefer-crc"),
    (6789, "ms_mode=legacy"),
    (6789, "ms_mode=legacy,nocrc"),
];

/// File systems and raw devices keep what is written to them, in every mode in which the kernel connects.
pub(crate) fn modes(stage: &Stage) -> Result<()> {
    let guest = Guest::prepare(stage)?;
    let _cluster = Embedded::start(stage, "")?;
    stage.onego("--conf ceph.conf rbd create rbd/disk --size 128M")?;
    let said = guest.run(stage, &script(), PROGRAMS)?;
    for (_, options) in OPTIONS {
        let works = said.lines().any(|line| line.starts_with(&format!("works: {options} ")));
        ensure!(works, "the guest does not say that {options} works:\n{said}");
    }
    Ok(())
}

fn script() -> String {
    let mut script = format!("MONITOR={ADDRESS}\ncat > /tmp/options <<END\n");
    for (port, options) in OPTIONS {
        script += &format!("{port} {options}\n");
    }
    script + "END\n" + SCRIPT
}
