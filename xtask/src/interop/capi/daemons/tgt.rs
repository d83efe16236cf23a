//! tgt exports an image by iSCSI.

use super::on_library::{PATIENCE, Run};
use crate::cluster::ADDRESS;
use crate::interop::disk;
use crate::interop::steps::says;
use anyhow::{Result, ensure};

const TARGET: &str = "iqn.2026-01.test:disk";

/// The families of libiscsi's tests that tgt passes on an image, and that end in seconds. It has no UNMAP there: it takes the number
/// of bytes that `rbd_discard` returns for an error.
const TESTS: [&str; 7] = [
    "SCSI.Read10",
    "SCSI.Read16",
    "SCSI.Write10",
    "SCSI.Write16",
    "SCSI.Verify10",
    "SCSI.CompareAndWrite",
    "SCSI.OrWrite",
];

/// Initiators of libiscsi and QEMU write and read what tgt has of an image.
pub(super) fn exports(run: Run<'_>) -> Result<()> {
    let stage = run.stage;
    stage.ceph(&format!("rbd create --size {}B rbd/exported", disk::SIZE))?;
    let tgtd = format!("tgtd --foreground --iscsi portal={ADDRESS}:3260");
    let mut server = run.daemon("tgtd", &tgtd)?;
    let show = "tgtadm --lld iscsi --op show --mode system";
    server.wait_until("an answer to tgtadm", PATIENCE, || stage.ceph(show).is_ok())?;
    let admin = |line: &str| stage.ceph(&format!("tgtadm --lld iscsi {line} --tid 1"));
    admin(&format!("--op new --mode target --targetname {TARGET}"))?;
    let store = "--bstype rbd --backing-store rbd/exported --bsopts conf=ceph.conf;id=admin";
    admin(&format!("--op new --mode logicalunit --lun 1 {store}"))?;
    admin("--op bind --mode target --initiator-address ALL")?;
    run.has_loaded(&server)?;

    let disk = format!("iscsi://{ADDRESS}/{TARGET}/1");
    says(&stage.ceph(&format!("iscsi-ls -s iscsi://{ADDRESS}"))?, TARGET)?;
    says(&stage.ceph(&format!("iscsi-inq {disk}"))?, "DIRECT_ACCESS")?;
    says(&stage.ceph(&format!("iscsi-readcapacity16 {disk}"))?, &format!("Total size:{}", disk::SIZE))?;
    tests(run, &disk)?;

    // With holes it would ask for zeros by WRITE SAME, which tgt makes a write of each sector: 260,000 here.
    stage.ceph(&format!("qemu-img convert -n -S 0 -f raw -O raw disk.raw {disk}"))?;
    for (write, read) in [
        ("write -P 7 1M 64k", "read -P 7 1M 64k"),
        ("write -z 16M 64k", "read -P 0 16M 64k"),
        ("writev -P 9 20M 4k 8k 4k", "flush"),
    ] {
        let said = stage.ceph_words(&["qemu-io", "-f", "raw", "-c", write, "-c", read, &disk])?;
        ensure!(!said.contains("failed"), "`{write}`, `{read}`:\n{said}");
    }
    stage.ceph(&format!("qemu-img convert -f raw -O raw {disk} by-iscsi.raw"))?;
    stage.onego("--conf ceph.conf rbd export rbd/exported by-onego.raw --no-progress")?;
    stage.ceph("rbd export --no-progress rbd/exported by-rbd.raw")?;
    for copy in ["by-onego.raw", "by-rbd.raw"] {
        disk::compare(&stage.path("by-iscsi.raw"), &stage.path(copy))?;
        std::fs::remove_file(stage.path(copy))?;
    }
    // Every byte but for what was written since is that of the disk.
    let same = "cmp --ignore-initial=25165824 disk.raw by-iscsi.raw";
    stage.ceph(same)?;

    server.check_alive()?;
    admin("--op delete --force --mode target")?;
    stage.ceph("tgtadm --op delete --mode system")?;
    server.wait()?;
    stage.ceph("rbd rm --no-progress rbd/exported").map(drop)
}

/// An error unless tests of each family have run and none has failed.
fn tests(run: Run<'_>, disk: &str) -> Result<()> {
    for family in TESTS {
        let said = run.stage.ceph(&format!("iscsi-test-cu --dataloss --normal --test={family} {disk}"))?;
        // `tests  TOTAL  RAN  PASSED  FAILED  INACTIVE`
        let line = said.lines().find_map(|line| line.trim().strip_prefix("tests "));
        let counts: Vec<u32> = line.unwrap_or_default().split_whitespace().flat_map(str::parse).collect();
        let is_well = matches!(counts[..], [_, ran, passed, 0, 0] if ran > 0 && passed == ran);
        ensure!(is_well, "tests of {family} fail:\n{said}");
    }
    Ok(())
}
