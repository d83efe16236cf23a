//! The end of a device of nbd.

use crate::failure::Failure;
use crate::map::records::Record;
use crate::map::settle::{settled, unserved};
use crate::nbd_driver::{Driver, is_connected};
use onego_ublk::DeviceState;

/// Removes a device: one that nobody uses, or any by `force`.
pub(in crate::map) fn remove(record: &Record, force: bool) -> Result<(), Failure> {
    match state(record) {
        None => Ok(()),
        Some(_) if force => Ok(Driver::open()?.disconnect(record.id, &record.identity)?),
        Some(DeviceState::Live) => stop(&mut Driver::open()?, record),
        Some(_) => Err(unserved(&record.device())),
    }
}

/// Ends a device that nobody uses, after all that was written to it is in its source.
pub(super) fn stop(driver: &mut Driver, record: &Record) -> Result<(), Failure> {
    let _alone = settled(&record.device())?;
    Ok(driver.disconnect(record.id, &record.identity)?)
}

/// How a device stands. `None`: it is gone.
pub(in crate::map) fn state(record: &Record) -> Option<DeviceState> {
    is_connected(record.id, &record.identity).then(|| match record.has_process() {
        true => DeviceState::Live,
        false => DeviceState::Quiesced,
    })
}
