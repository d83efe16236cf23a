//! tgt exports an image by iSCSI.

use super::{On, PATIENCE};
use crate::steps::says;
use anyhow::{Result, ensure};
use onego_sandbox::{ADDRESS, disk};
use std::fs;

const TARGET: &str = "iqn.2026-01.test:disk";

/// Families of libiscsi's tests that tgt passes on an image within seconds. UNMAP is not among them: tgt takes the byte
/// count that `rbd_discard` returns for an error.
const TESTS: [&str; 7] = [
    "SCSI.Read10",
    "SCSI.Read16",
    "SCSI.Write10",
    "SCSI.Write16",
    "SCSI.Verify10",
    "SCSI.CompareAndWrite",
    "SCSI.OrWrite",
];

/// Lets the initiators of libiscsi and QEMU write and read an image through tgt.
pub(super) fn exports(on: On<'_>) -> Result<()> {
    let sandbox = on.sandbox;
    sandbox.ceph(&format!("rbd create --size {}B rbd/exported", disk::SIZE))?;
    let mut server = on.daemon("tgtd", &format!("tgtd --foreground --iscsi portal={ADDRESS}:3260"))?;
    let show = "tgtadm --lld iscsi --op show --mode system";
    server.wait_until("answer to tgtadm", PATIENCE, || sandbox.ceph(show).is_ok())?;
    let admin = |line: &str| sandbox.ceph(&format!("tgtadm --lld iscsi {line} --tid 1"));
    admin(&format!("--op new --mode target --targetname {TARGET}"))?;
    let store = "--bstype rbd --backing-store rbd/exported --bsopts conf=ceph.conf;id=admin";
    admin(&format!("--op new --mode logicalunit --lun 1 {store}"))?;
    admin("--op bind --mode target --initiator-address ALL")?;
    on.has_loaded(&server)?;

    let disk = format!("iscsi://{ADDRESS}/{TARGET}/1");
    says(&sandbox.ceph(&format!("iscsi-ls -s iscsi://{ADDRESS}"))?, TARGET)?;
    says(&sandbox.ceph(&format!("iscsi-inq {disk}"))?, "DIRECT_ACCESS")?;
    says(&sandbox.ceph(&format!("iscsi-readcapacity16 {disk}"))?, &format!("Total size:{}", disk::SIZE))?;
    for family in TESTS {
        let said = sandbox.ceph(&format!("iscsi-test-cu --dataloss --normal --test={family} {disk}"))?;
        // `tests  TOTAL  RAN  PASSED  FAILED  INACTIVE`
        let line = said.lines().find_map(|line| line.trim().strip_prefix("tests "));
        let counts: Vec<u32> = line.unwrap_or_default().split_whitespace().flat_map(str::parse).collect();
        let have_passed = matches!(counts[..], [_, ran, passed, 0, 0] if ran > 0 && passed == ran);
        ensure!(have_passed, "tests of {family} fail:\n{said}");
    }

    // Holes would become WRITE SAME, which tgt executes as one write a sector: 260,000 here.
    sandbox.ceph(&format!("qemu-img convert -n -S 0 -f raw -O raw disk.raw {disk}"))?;
    for (write, read) in [
        ("write -P 7 1M 64k", "read -P 7 1M 64k"),
        ("write -z 16M 64k", "read -P 0 16M 64k"),
        ("writev -P 9 20M 4k 8k 4k", "flush"),
    ] {
        let said = sandbox.ceph_words(&["qemu-io", "-f", "raw", "-c", write, "-c", read, &disk])?;
        ensure!(!said.contains("failed"), "`{write}`, `{read}`:\n{said}");
    }
    sandbox.ceph(&format!("qemu-img convert -f raw -O raw {disk} by-iscsi.raw"))?;
    sandbox.onego("--conf ceph.conf rbd export rbd/exported by-onego.raw --no-progress")?;
    sandbox.ceph("rbd export --no-progress rbd/exported by-rbd.raw")?;
    for copy in ["by-onego.raw", "by-rbd.raw"] {
        disk::compare(&sandbox.path("by-iscsi.raw"), &sandbox.path(copy))?;
        fs::remove_file(sandbox.path(copy))?;
    }
    // Past qemu-io's writes, every byte is the disk's.
    let [made, exported] = ["disk.raw", "by-iscsi.raw"].map(|name| fs::read(sandbox.path(name)));
    ensure!(made?[24 << 20..] == exported?[24 << 20..], "by-iscsi.raw differs from disk.raw past 24 MiB");

    server.check_alive()?;
    admin("--op delete --force --mode target")?;
    sandbox.ceph("tgtadm --op delete --mode system")?;
    server.wait()?;
    sandbox.ceph("rbd rm --no-progress rbd/exported").map(drop)
}
