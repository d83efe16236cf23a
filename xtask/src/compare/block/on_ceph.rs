//! librbd with Ceph's own OSD: through qemu-nbd, and without NBD.

use super::super::fio;
use super::load::NbdLoad;
use super::server::NbdServer;
use super::subject::{QEMU_CEPH, TakenNbd};
use crate::cluster::{RealCeph, Stage, Store};
use crate::compare::load::Load;
use crate::compare::mode::Mode;
use crate::compare::subject::LIBRBD_CEPH;
use anyhow::Result;
use std::path::Path;

/// A cluster of Ceph's with its objects in memory, and a server of an image on it.
pub(super) struct OnCeph<'a> {
    stage: &'a Stage,
    // Before the cluster, or it would not end.
    server: NbdServer<'a>,
    ceph: RealCeph<'a>,
}

impl<'a> OnCeph<'a> {
    /// Starts the cluster, fills an image and serves it.
    pub(super) fn start(stage: &'a Stage) -> Result<Self> {
        let ceph = RealCeph::start(stage, Store::Memory)?;
        fio::fill(stage)?;
        let line = format!("-t -e 8 -f raw -k SOCKET rbd:rbd/{}:conf=ceph.conf:id=admin", fio::IMAGE);
        let server = NbdServer::start(stage, QEMU_CEPH, Path::new("qemu-nbd"), &line)?;
        Ok(Self { stage, server, ceph })
    }

    /// A load on the server, and the same by librbd alone. The CPU of the first row is the server's, that of the second the OSD's.
    pub(super) fn measure(&self, load: &NbdLoad, seconds: u32) -> Result<[TakenNbd; 2]> {
        let served = TakenNbd::on(&self.server, "rbd", load, seconds)?;
        let librbd =
            fio::Peer { stage: self.stage, who: LIBRBD_CEPH, prefix: "", image: fio::IMAGE, seconds };
        let NbdLoad { rw, block_size, jobs, io_depth, .. } = *load;
        let same = Load { mode: Mode::Crc, rw, block_size, jobs, io_depth };
        let row = librbd.measure(&same, || self.ceph.osd_cpu_seconds())?.row;
        Ok([served, TakenNbd { who: LIBRBD_CEPH.to_owned(), device: "rbd", load: *load, row }])
    }
}
