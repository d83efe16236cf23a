//! Names of what is measured, and its rows.

use super::load::NbdLoad;
use super::server::NbdServer;
use crate::compare::row::Row;
use anyhow::Result;
use serde::Serialize;

pub(super) const OURS: &str = "onego";
pub(super) const OURS_IMAGE: &str = "onego, image";
pub(super) const TWO_REACTORS: &str = "onego, image, two reactors";
pub(super) const NBDKIT: &str = "nbdkit";
pub(super) const QEMU: &str = "qemu-nbd";
pub(super) const QEMU_LIBRBD: &str = "qemu-nbd through librbd";
pub(super) const QEMU_CEPH: &str = "qemu-nbd, Ceph memstore OSD";
pub(super) const OURS_DISK: &str = "onego, vhost-user";
pub(super) const QEMU_DISK: &str = "qemu-storage-daemon";
/// What the hop from a client of NBD to a server costs, beside servers of an image.
pub(super) const BARE: &str = "a bare server, memory";
pub(super) const DIRECT: &str = "onego, image without NBD";

/// A row, whose it is, and under which load it was taken.
#[derive(Debug, Serialize)]
pub(in crate::compare) struct TakenNbd {
    pub(super) who: String,
    pub(super) device: &'static str,
    #[serde(skip)]
    pub(super) load: NbdLoad,
    #[serde(flatten)]
    pub(super) row: Row,
}

impl TakenNbd {
    /// Puts a load on a server of that device.
    pub(super) fn on(
        server: &NbdServer<'_>,
        device: &'static str,
        load: &NbdLoad,
        seconds: u32,
    ) -> Result<Self> {
        Ok(Self { who: server.who.clone(), device, load: *load, row: server.measure(load, seconds)? })
    }
}
