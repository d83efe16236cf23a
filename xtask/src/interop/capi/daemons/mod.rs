//! Daemons and helpers of Debian that were built for Ceph's libraries. Each does the same on Ceph's library and then on ours, and
//! what it has done is looked at with Ceph's programs and with `onego`.

mod ctdb;
mod ganesha;
mod libvirt;
mod on_library;
mod rbd_fuse;
mod tgt;

use super::library;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::ensure_pool;
use anyhow::{Context as _, Result, ensure};
use on_library::{Library, Run};

/// The daemons on our embedded cluster.
pub(in crate::interop) fn on_ours(stage: &Stage) -> Result<()> {
    library::prepare(stage)?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    run(stage)
}

/// The daemons on a real cluster of the release.
pub(in crate::interop) fn on_real_ceph(stage: &Stage) -> Result<()> {
    library::prepare(stage)?;
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    run(stage)
}

/// What is done with one daemon.
type Part = fn(Run<'_>) -> Result<()>;

const PARTS: [(&str, Part); 5] = [
    ("tgt", tgt::exports),
    ("libvirt", libvirt::manages),
    ("rbd-fuse", rbd_fuse::mounts),
    ("ganesha-rados-grace", ganesha::keeps_grace),
    ("ctdb", ctdb::locks),
];

fn run(stage: &Stage) -> Result<()> {
    ensure_pool(stage)?;
    disk::make(&stage.path("disk.raw"), 17)?;
    // Daemons have their sockets there, and the system's own may, too.
    stage.ceph("mount -t tmpfs tmpfs /run")?;
    for library in [Library::Ceph, Library::Ours] {
        for (name, part) in PARTS {
            part(Run { stage, on: library }).with_context(|| format!("{name} on the library {library:?}"))?;
        }
        let left = stage.ceph("rbd ls")?;
        ensure!(left.is_empty(), "images are left: {left}");
    }
    Ok(())
}
