//! A device that this process serves, from its beginning to its end.

use super::removal;
use crate::failure::Failure;
use crate::map::queues::Queues;
use crate::map::records::{Claim, Record};
use onego_ublk::{CharDevice, Control, DeviceInfo, DeviceState, Features, NewDevice};
use std::time::{Duration, Instant};

/// How long the kernel may take to let go of the process that served a device: it cancels what that had in flight.
const TAKE_OVER: Duration = Duration::from_secs(30);

/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// A device that this process serves. When it is dropped, the device is removed if nobody uses it; else it waits for another
/// process.
pub(super) struct Served {
    pub(super) record: Record,
    control: Control,
    /// They serve until the device is stopped.
    queues: Option<Queues<CharDevice>>,
    /// Somebody may know of it.
    is_usable: bool,
    _claim: Claim,
}

impl Served {
    /// Makes a device, which is there when this returns. The record gets its number.
    pub(super) fn make(
        mut control: Control,
        queues: Queues<CharDevice>,
        claim: Claim,
        (device, params): (NewDevice, &[u8]),
        record: Record,
    ) -> Result<Self, Failure> {
        let info = control.add(&device)?;
        let record = Record { id: info.id(), ..record };
        let mut served = Self { record, control, queues: Some(queues), is_usable: false, _claim: claim };
        served.control.set_params(info.id(), params)?;
        served.record.save()?;
        served.begin(info)?;
        served.control.start(info.id(), served.record.pid)?;
        Ok(served)
    }

    /// Takes a device over: what was in flight is in flight again.
    pub(super) fn take_over(
        mut control: Control,
        queues: Queues<CharDevice>,
        claim: Claim,
        info: DeviceInfo,
        record: Record,
    ) -> Result<Self, Failure> {
        let until = Instant::now() + TAKE_OVER;
        while let Err(error) = control.start_recovery(info.id()) {
            if Instant::now() >= until {
                return Err(error.into());
            }
            std::thread::sleep(PAUSE);
        }
        let mut served = Self { record, control, queues: Some(queues), is_usable: true, _claim: claim };
        served.record.save()?;
        served.begin(info)?;
        served.control.end_recovery(info.id(), served.record.pid)?;
        Ok(served)
    }

    /// From now on somebody may use the device.
    pub(super) fn set_usable(&mut self) {
        self.is_usable = true;
    }

    fn begin(&mut self, info: DeviceInfo) -> Result<(), Failure> {
        let device = CharDevice::open(info)?;
        let ends = (0..device.info().queues()).map(|_| device.try_clone()).collect::<Result<_, _>>()?;
        self.queues.as_mut().map_or(Ok(()), |queues| queues.serve(ends))
    }

    /// Stops the device, unless it is to wait for another process. `false`: it waits.
    fn stop(&mut self) -> bool {
        let id = self.record.id;
        let info = match self.control.info(id) {
            Ok(info) => info,
            Err(onego_ublk::Error::NoDevice(_)) => return true,
            Err(error) => {
                tracing::warn!("{error}");
                return false;
            }
        };
        // It was unmapped, or nobody has seen it yet.
        if info.state() == DeviceState::Dead || !self.is_usable {
            return self.control.stop(id).is_ok();
        }
        // To stop it orderly takes requests to be carried out.
        let is_whole = self.queues.as_ref().is_some_and(Queues::are_whole);
        let stopped = if is_whole { removal::stop(&mut self.control, &self.record) } else { Ok(()) };
        if let Err(error) = &stopped {
            tracing::warn!("{error}");
        }
        // A device that cannot wait is stopped by the kernel as soon as its process ends.
        is_whole && stopped.is_ok() || !info.features().contains(Features::USER_RECOVERY)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let stopped = self.stop();
        // The kernel removes a device once nobody serves it any more.
        self.queues = None;
        if !stopped {
            let source = &self.record.source;
            tracing::warn!("{} waits until {source} is mapped again", self.record.device().display());
            return;
        }
        match self.control.delete_later(self.record.id) {
            // Whoever has unmapped it may have been first.
            Ok(()) | Err(onego_ublk::Error::NoDevice(_)) => {}
            Err(error) => tracing::warn!("{error}"),
        }
        self.record.remove();
    }
}
