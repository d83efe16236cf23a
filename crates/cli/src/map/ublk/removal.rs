//! The end of a device of ublk.

use crate::failure::Failure;
use crate::map::records::Record;
use crate::map::settle::{settled, unserved};
use onego_ublk::{Control, DeviceState};

/// Removes a device: one that nobody uses, or any by `force`.
pub(in crate::map) fn remove(record: &Record, force: bool) -> Result<(), Failure> {
    let mut control = Control::open()?;
    match control.info(record.id) {
        Ok(_) if force => control.stop(record.id)?,
        Ok(info) if info.state() != DeviceState::Dead => stop(&mut control, record)?,
        Ok(_) | Err(onego_ublk::Error::NoDevice(_)) => {}
        Err(error) => return Err(error.into()),
    }
    // Whoever uses it may do so for ever.
    let deleted = if force { control.delete_later(record.id) } else { control.delete(record.id) };
    match deleted {
        // The process that has served it may have been first.
        Ok(()) | Err(onego_ublk::Error::NoDevice(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Stops a device that nobody uses, after all that was written to it is in its source.
pub(super) fn stop(control: &mut Control, record: &Record) -> Result<(), Failure> {
    let path = record.device();
    if control.info(record.id)?.state() != DeviceState::Live {
        return Err(unserved(&path));
    }
    let _alone = settled(&path)?;
    Ok(control.stop(record.id)?)
}
