//! Control commands: create, start, stop and delete devices.

use crate::error::Error;
use crate::info::{DeviceInfo, Features, INFO};
use crate::kernel::{self, ControlCommand};
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

const PATH: &str = "/dev/ublk-control";

/// Settings of a device to create.
#[derive(Debug, Clone, Copy)]
pub struct NewDevice {
    /// Device number; `None` chooses a free one.
    pub id: Option<u32>,
    /// Number of queues, each served by its own thread. The kernel creates at most one per CPU.
    pub queues: u16,
    /// Maximum requests in flight per queue, up to 4096.
    pub depth: u16,
    /// Maximum size of a request in bytes, up to 32 MiB.
    pub max_io: u32,
    /// Requested features; the kernel drops those that it does not support.
    pub features: Features,
}

/// The driver's control device. Commands block: they may wait for users of the device and for the threads that serve
/// it. They must therefore be issued by a thread that serves no device.
pub struct Control {
    file: File,
    /// The driver requires entries of 128 bytes.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    /// Opens the control device. Fails if the kernel has no driver, or if the driver lacks a feature that this crate
    /// needs.
    pub fn open() -> Result<Self, Error> {
        let file =
            OpenOptions::new().read(true).write(true).open(PATH).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::NoDriver,
                io::ErrorKind::PermissionDenied => Error::NotPermitted(PATH.to_owned()),
                _ => Error::failed("open /dev/ublk-control")(error),
            })?;
        let ring = IoUring::builder().dontfork().build(2).map_err(Error::NoRing)?;
        Ok(Self { file, ring })
    }

    /// Returns the features of the driver.
    pub fn features(&mut self) -> Result<Features, Error> {
        let mut bytes = [0; 8];
        match self.command_with(kernel::GET_FEATURES, u32::MAX, &mut bytes) {
            Ok(_) => Ok(Features(u64::from_ne_bytes(bytes))),
            // Linux 6.5 added this command, and commands with this encoding of their numbers.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV)) =>
            {
                Err(Error::TooOld("GET_FEATURES (Linux 6.5)"))
            }
            Err(error) => Err(Error::failed("return the features of its ublk driver")(error)),
        }
    }

    /// Creates a device and returns its actual settings.
    pub fn add(&mut self, device: &NewDevice) -> Result<DeviceInfo, Error> {
        let NewDevice { id, queues, depth, max_io, features } = *device;
        let id = id.unwrap_or(u32::MAX);
        let mut bytes = DeviceInfo { queues, depth, state: 0, max_io, id, pid: 0, features }.encode();
        let made = self.command_with(kernel::ADD_DEVICE, id, &mut bytes);
        made.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted(PATH.to_owned()),
            _ => Error::failed("create a block device")(error),
        })?;
        decode(&bytes, "create a block device")
    }

    /// Returns the state of a device.
    pub fn info(&mut self, id: u32) -> Result<DeviceInfo, Error> {
        const WHAT: &str = "describe a block device";
        let mut bytes = [0; INFO];
        self.command_with(kernel::GET_INFO, id, &mut bytes).map_err(no_device(id, WHAT))?;
        decode(&bytes, WHAT)
    }

    /// Sets the parameters of a device that has not been started, as encoded by
    /// [`Params::encode`](onego_export::ublk::Params::encode).
    pub fn set_params(&mut self, id: u32, params: &[u8]) -> Result<(), Error> {
        let mut bytes = params.to_vec();
        let done = self.command_with(kernel::SET_PARAMS, id, &mut bytes);
        done.map(drop).map_err(no_device(id, "set the parameters of a block device"))
    }

    /// Starts a device that process `pid` serves. Returns when the block device exists and its partitions have been
    /// scanned. Meanwhile all queues must be served by threads.
    pub fn start(&mut self, id: u32, pid: u32) -> Result<(), Error> {
        self.about(kernel::START_DEVICE, id, u64::from(pid), "start a block device")
    }

    /// Resizes a device, even while it is in use, to a number of 512-byte sectors ([`Features::UPDATE_SIZE`]).
    pub fn update_size(&mut self, id: u32, sectors: u64) -> Result<(), Error> {
        self.about(kernel::UPDATE_SIZE, id, sectors, "resize a block device")
    }

    /// Stops a device: requests in flight complete, and later ones fail.
    pub fn stop(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::STOP_DEVICE, id, 0, "stop a block device")
    }

    /// Deletes a device. Returns when no process has it open.
    pub fn delete(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::DELETE_DEVICE, id, 0, "delete a block device")
    }

    /// Deletes a device as soon as no process has it open, without waiting for that (Linux 6.9).
    pub fn delete_later(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::DELETE_DEVICE_LATER, id, 0, "delete a block device later")
    }

    /// Starts the recovery of a device whose server process has ended.
    pub fn start_recovery(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::START_RECOVERY, id, 0, "start the recovery of a block device")
    }

    /// Finishes the recovery: process `pid` serves the device from now on. Returns when threads serve all its queues.
    pub fn end_recovery(&mut self, id: u32, pid: u32) -> Result<(), Error> {
        self.about(kernel::END_RECOVERY, id, u64::from(pid), "finish the recovery of a block device")
    }

    /// Issues a command with a number as its argument.
    fn about(&mut self, command: u32, device: u32, value: u64, what: &'static str) -> Result<(), Error> {
        let done = self.command(command, ControlCommand { device, buffer: (0, 0), value });
        done.map(drop).map_err(no_device(device, what))
    }

    /// Issues a command with a buffer that the kernel may modify.
    fn command_with(&mut self, command: u32, device: u32, bytes: &mut [u8]) -> io::Result<i32> {
        let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let buffer = (bytes.as_mut_ptr() as u64, length);
        self.command(command, ControlCommand { device, buffer, value: 0 })
    }

    /// Issues a command and waits for its completion, after which the kernel no longer uses the buffer.
    fn command(&mut self, command: u32, about: ControlCommand) -> io::Result<i32> {
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), command).cmd(about.encode()).build();
        // SAFETY: the command's buffer is borrowed by this call, which does not return before the completion.
        unsafe { self.ring.submission().push(&entry) }.expect("nothing else is queued");
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // Interrupted by a signal.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The command may be in flight, with a pointer to the caller's buffer: returning would be unsound.
                Err(error) => panic!("cannot wait for a ublk control command: {error}"),
            }
            if let Some(completion) = self.ring.completion().next() {
                return match completion.result() {
                    errno @ ..0 => Err(io::Error::from_raw_os_error(-errno)),
                    result => Ok(result),
                };
            }
        }
    }
}

fn no_device(id: u32, what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| match error.raw_os_error() {
        Some(libc::ENODEV) => Error::NoDevice(id),
        Some(libc::EPERM | libc::EACCES) => Error::NotPermitted(PATH.to_owned()),
        _ => Error::failed(what)(error),
    }
}

fn decode(bytes: &[u8; INFO], what: &'static str) -> Result<DeviceInfo, Error> {
    let bad = || Error::failed(what)(io::ErrorKind::InvalidData.into());
    DeviceInfo::decode(bytes).ok_or_else(bad)
}
