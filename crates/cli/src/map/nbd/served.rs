//! A device that this process serves, from its beginning to its end.

use super::removal;
use crate::failure::Failure;
use crate::map::queues::Queues;
use crate::map::records::{Claim, Record};
use crate::nbd_driver::{Driver, NewDevice, is_connected};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd as _, OwnedFd};

/// A device that this process serves. When it is dropped, the device is removed if nobody uses it; else it waits for another
/// process.
pub(super) struct Served {
    pub(super) record: Record,
    driver: Driver,
    /// They serve until the device is ended.
    queues: Option<Queues<OwnedFd>>,
    /// Somebody may know of it.
    is_usable: bool,
    /// It waits if this process ends.
    waits: bool,
    _claim: Claim,
}

impl Served {
    /// Makes a device, which is there when this returns. The record gets its number.
    pub(super) fn make(
        mut driver: Driver,
        mut queues: Queues<OwnedFd>,
        claim: Claim,
        device: NewDevice,
        record: Record,
    ) -> Result<Self, Failure> {
        let socket = serve(&mut queues)?;
        let id = driver.connect(device, &record.identity, socket.as_fd())?;
        let record = Record { id, ..record };
        let queues = Some(queues);
        let served = Self { record, driver, queues, is_usable: false, waits: device.waits, _claim: claim };
        served.record.save()?;
        Ok(served)
    }

    /// Takes a device over: what was in flight is in flight again.
    pub(super) fn take_over(
        mut driver: Driver,
        mut queues: Queues<OwnedFd>,
        claim: Claim,
        record: Record,
    ) -> Result<Self, Failure> {
        let socket = serve(&mut queues)?;
        driver.reconnect(record.id, &record.identity, socket.as_fd())?;
        let queues = Some(queues);
        let served = Self { record, driver, queues, is_usable: true, waits: true, _claim: claim };
        served.record.save()?;
        Ok(served)
    }

    /// From now on somebody may use the device.
    pub(super) fn set_usable(&mut self) {
        self.is_usable = true;
    }

    /// Ends the device, unless it is to wait for another process. `false`: it waits.
    fn stop(&mut self) -> bool {
        // It was unmapped.
        if !is_connected(self.record.id, &self.record.identity) {
            return true;
        }
        // To end it orderly takes requests to be carried out.
        let is_whole = self.queues.as_ref().is_some_and(Queues::are_whole);
        let settled = if is_whole { removal::stop(&mut self.driver, &self.record) } else { Ok(()) };
        if is_whole && settled.is_ok() {
            return true;
        }
        if let Err(error) = settled {
            tracing::warn!("{error}");
        }
        if self.waits && self.is_usable {
            return false;
        }
        if let Err(error) = self.driver.disconnect(self.record.id, &self.record.identity) {
            tracing::warn!("{error}");
        }
        true
    }
}

/// Has the thread serve one end of a pair of sockets. The other is the kernel's.
fn serve(queues: &mut Queues<OwnedFd>) -> Result<OwnedFd, Failure> {
    let (ours, kernels) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Failure::Io { what: "making a pair of sockets", source: error.into() })?;
    queues.serve(vec![ours])?;
    Ok(kernels)
}

impl Drop for Served {
    fn drop(&mut self) {
        let stopped = self.stop();
        self.queues = None;
        if stopped {
            self.record.remove();
        } else {
            let source = &self.record.source;
            tracing::warn!("{} waits until {source} is mapped again", self.record.device().display());
        }
    }
}
