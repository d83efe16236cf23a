//! QEMU's machines on our library.

use super::library::{self, environment};
use crate::cluster::{Embedded, Stage};
use crate::guest::ServedDisk;
use crate::interop::export::root::RootGuest;
use crate::interop::steps::says;
use anyhow::Result;

/// The image for QEMU's programs.
const IMAGE: &str = "rbd:rbd/root:conf=ceph.conf";

/// A guest has its root file system on an image, of which QEMU makes snapshots and goes back to them.
pub(in crate::interop) fn runs(stage: &Stage) -> Result<()> {
    library::prepare(stage)?;
    let _cluster = Embedded::start(stage, "")?;
    let guest = RootGuest::prepare(stage)?;
    let qemu_img = |line: &str| stage.ceph(&format!("env {} qemu-img {line}", environment(stage)));
    qemu_img(&format!("convert -f raw -O raw root.raw {IMAGE}"))?;
    qemu_img(&format!("snapshot -c fresh {IMAGE}"))?;
    let disk = ServedDisk::Rbd { library: "onego/lib", image: "root" };
    guest.runs(disk, "first")?;
    qemu_img(&format!("snapshot -c used {IMAGE}"))?;
    guest.runs(disk, "again")?;
    says(&qemu_img(&format!("snapshot -l {IMAGE}"))?, "used")?;
    // At this snapshot no guest has written anything.
    qemu_img(&format!("snapshot -a fresh {IMAGE}"))?;
    guest.runs(disk, "first")?;
    qemu_img(&format!("snapshot -a used {IMAGE}"))?;
    guest.runs(disk, "again")?;
    for snapshot in ["fresh", "used"] {
        qemu_img(&format!("snapshot -d {snapshot} {IMAGE}"))?;
    }
    Ok(())
}
