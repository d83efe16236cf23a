//! How devices stand.

use super::nbd;
use super::options::DeviceType;
use super::records::Record;
use crate::failure::Failure;
use onego_ublk::{Control, DeviceState};

/// Asks the drivers, each of which is opened when it is first needed.
#[derive(Default)]
pub(super) struct States {
    ublk: Option<Control>,
}

impl States {
    /// The state of a device. `None`: it is gone.
    pub(super) fn of(&mut self, record: &Record) -> Result<Option<DeviceState>, Failure> {
        if record.kind == DeviceType::Nbd {
            return Ok(nbd::state(record));
        }
        let control = match &mut self.ublk {
            Some(control) => control,
            none => none.insert(Control::open()?),
        };
        // One that cannot be asked for is gone.
        Ok(control.info(record.id).ok().map(|info| info.state()))
    }
}
