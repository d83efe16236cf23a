//! Commands that make, start, stop and remove devices.

use crate::error::Error;
use crate::info::{DeviceInfo, Features, INFO};
use crate::kernel::{self, ControlCommand};
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

const PATH: &str = "/dev/ublk-control";

/// A device to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewDevice {
    /// Its number, or any that is free.
    pub id: Option<u32>,
    /// Queues, each to be served by a thread of its own. The kernel makes at most one for each processor.
    pub queues: u16,
    /// Requests of a queue that may be in flight, at most 4096.
    pub depth: u16,
    /// Most bytes of a request, at most 32 MiB.
    pub max_io: u32,
    /// Those that it is to have, as far as the kernel knows them.
    pub features: Features,
}

/// The driver's control device. A command takes as long as it takes: it may wait for those who use the device, and for the
/// threads that serve it, and is therefore given by a thread that serves none.
pub struct Control {
    file: File,
    /// Its entries have 128 bytes, as the driver wants them.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    /// Opens the control device. Fails with the reason if the kernel has no driver, or one without what this crate uses.
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

    /// What the driver can do.
    pub fn features(&mut self) -> Result<Features, Error> {
        let mut bytes = [0; 8];
        match self.command_with(kernel::GET_FEATURES, u32::MAX, &mut bytes) {
            Ok(_) => Ok(Features(u64::from_ne_bytes(bytes))),
            // The command came with Linux 6.5, as did commands that are numbered like this.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV)) =>
            {
                Err(Error::TooOld("GET_FEATURES (Linux 6.5)"))
            }
            Err(error) => Err(Error::failed("say what its ublk driver can do")(error)),
        }
    }

    /// Makes a device, and says what became of it.
    pub fn add(&mut self, device: &NewDevice) -> Result<DeviceInfo, Error> {
        let NewDevice { id, queues, depth, max_io, features } = *device;
        let id = id.unwrap_or(u32::MAX);
        let mut bytes = DeviceInfo { queues, depth, state: 0, max_io, id, pid: 0, features }.encode();
        let made = self.command_with(kernel::ADD_DEVICE, id, &mut bytes);
        made.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted(PATH.to_owned()),
            _ => Error::failed("make a block device")(error),
        })?;
        decode(&bytes, "make a block device")
    }

    /// What there is to know of a device.
    pub fn info(&mut self, id: u32) -> Result<DeviceInfo, Error> {
        const WHAT: &str = "say what a block device is";
        let mut bytes = [0; INFO];
        self.command_with(kernel::GET_INFO, id, &mut bytes).map_err(no_device(id, WHAT))?;
        decode(&bytes, WHAT)
    }

    /// Says what a device is that has not been started: its parameters, as
    /// [`Params::encode`](onego_export::ublk::Params::encode) gives them.
    pub fn set_params(&mut self, id: u32, params: &[u8]) -> Result<(), Error> {
        let mut bytes = params.to_vec();
        let done = self.command_with(kernel::SET_PARAMS, id, &mut bytes);
        done.map(drop).map_err(no_device(id, "take the sizes of a block device"))
    }

    /// Starts a device, served by process `pid`. Returns when the block device is there and its partitions were looked for:
    /// that takes threads that serve all its queues meanwhile.
    pub fn start(&mut self, id: u32, pid: u32) -> Result<(), Error> {
        self.about(kernel::START_DEVICE, id, u64::from(pid), "start a block device")
    }

    /// Gives a device another size, in sectors of 512 bytes, although it may be in use ([`Features::UPDATE_SIZE`]).
    pub fn update_size(&mut self, id: u32, sectors: u64) -> Result<(), Error> {
        self.about(kernel::UPDATE_SIZE, id, sectors, "change the size of a block device")
    }

    /// Stops a device: requests that are in flight are carried out, and later ones fail.
    pub fn stop(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::STOP_DEVICE, id, 0, "stop a block device")
    }

    /// Removes a device. Returns when nobody has it open any more.
    pub fn delete(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::DELETE_DEVICE, id, 0, "remove a block device")
    }

    /// Removes a device once nobody has it open any more, for which this does not wait (Linux 6.9).
    pub fn delete_later(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::DELETE_DEVICE_LATER, id, 0, "remove a block device later")
    }

    /// Begins to take over a device whose program is gone.
    pub fn start_recovery(&mut self, id: u32) -> Result<(), Error> {
        self.about(kernel::START_RECOVERY, id, 0, "let a block device be taken over")
    }

    /// Ends that: process `pid` serves the device from now on. Returns when threads serve all its queues.
    pub fn end_recovery(&mut self, id: u32, pid: u32) -> Result<(), Error> {
        self.about(kernel::END_RECOVERY, id, u64::from(pid), "go on with a block device")
    }

    /// A command that carries a number.
    fn about(&mut self, command: u32, device: u32, value: u64, what: &'static str) -> Result<(), Error> {
        let done = self.command(command, ControlCommand { device, buffer: (0, 0), value });
        done.map(drop).map_err(no_device(device, what))
    }

    /// A command that carries bytes, which the kernel may change.
    fn command_with(&mut self, command: u32, device: u32, bytes: &mut [u8]) -> io::Result<i32> {
        let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let buffer = (bytes.as_mut_ptr() as u64, length);
        self.command(command, ControlCommand { device, buffer, value: 0 })
    }

    /// Gives a command, and waits for what comes of it: the kernel is done with the command's bytes then.
    fn command(&mut self, command: u32, about: ControlCommand) -> io::Result<i32> {
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), command).cmd(about.encode()).build();
        // SAFETY: what the command points to is lent to this call, which does not return before the completion.
        unsafe { self.ring.submission().push(&entry) }.expect("nothing else is queued");
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // A signal came.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The command may be under way, with an address in it: nobody may go on.
                Err(error) => panic!("a control command of ublk cannot be waited for: {error}"),
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
