//! Sizes of devices that change while they are mapped.

use super::records::Record;
use crate::failure::Failure;
use onego::block::Geometry;
use std::fs;
use std::path::Path;
use std::sync::mpsc::Receiver;

/// Bytes of a sector of the kernel's.
pub(super) const SECTOR: u64 = 512;

/// Has the kernel learn the size of the source, as it is now and as it becomes, on a thread of its own, which ends with those that
/// serve the device. `size_of` is the size that the device is to have, in bytes, and `update` tells the driver.
pub(super) fn follow(
    record: &Record,
    now: Geometry,
    later: Receiver<Geometry>,
    size_of: impl Fn(&Geometry) -> Result<u64, Failure> + Send + 'static,
    mut update: impl FnMut(u64) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let device = record.device();
    let body = move || {
        for geometry in std::iter::once(now).chain(later) {
            let result = size_of(&geometry).and_then(|size| match kernels_size(&device) == Some(size) {
                true => Ok(()),
                false => update(size),
            });
            if let Err(error) = result {
                tracing::warn!("{} keeps its size: {}", device.display(), error.sentence());
            }
        }
    };
    let thread = std::thread::Builder::new().name("onego-map-size".into()).spawn(body);
    thread.map(drop).map_err(Failure::io("starting a thread"))
}

/// The size that the kernel knows, in bytes.
pub(super) fn kernels_size(device: &Path) -> Option<u64> {
    let said = fs::read_to_string(Path::new("/sys/block").join(device.file_name()?).join("size")).ok()?;
    said.trim().parse::<u64>().ok()?.checked_mul(SECTOR)
}
