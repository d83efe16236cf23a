//! NBD and vhost-user with other programs, without guests.

mod clients;
mod peers;
mod tls;

use crate::scenario::Scenario;
use anyhow::{Result, ensure};
use onego_sandbox::Release::{Pacific, Reef, Tentacle};
use onego_sandbox::{Sandbox, disk};
use std::fs::File;

/// Returns the scenarios with exported devices.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("nbd-clients", "libnbd, QEMU and fio use our NBD server", clients::nbd)
            .smoke()
            .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new("nbd-tls", "NBD over TLS accepts good certificates and rejects others", tls::all)
            .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new("vhost-user-blkio", "QEMU's programs use our vhost-user disks", clients::blkio)
            .releases(&[Reef, Tentacle]),
        Scenario::new("block-devices", "our NBD client copies to and from nbdkit and qemu-nbd", peers::all),
    ]
}

/// Size of the exported devices in bytes.
const SIZE: u64 = 256 << 20;

/// Makes `disk.raw` of the devices' size, because some clients require that sizes match.
fn make_disk(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 3)?;
    Ok(File::options().write(true).open(sandbox.path("disk.raw"))?.set_len(SIZE)?)
}

/// Writes, zeroes and discards with qemu-io, several requests at a time, and reads five patterns.
fn qemu_io(sandbox: &Sandbox, image: &str) -> Result<()> {
    sandbox.write("work", include_str!("work"))?;
    sandbox.write("work.sh", format!("qemu-io {image} < work"))?;
    let said = sandbox.ceph("sh work.sh")?;
    let reads = said.lines().filter(|line| line.contains("read ") && line.contains(" bytes at offset"));
    ensure!(reads.count() == 5 && !said.contains("failed"), "qemu-io: {said}");
    Ok(())
}
