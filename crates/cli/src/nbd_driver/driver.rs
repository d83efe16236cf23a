//! The driver nbd: its commands.

use super::message::{self, Attributes};
use super::netlink::Netlink;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;

/// Names and numbers of nbd-netlink.h.
const FAMILY: &str = "nbd";
const VERSION: u8 = 1;
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;

/// Seconds that requests wait for another process after one has ended that served them: as long as anybody may want. The
/// kernel counts in ticks of the clock, so it takes no more.
const WAITS: u64 = 365 * 24 * 60 * 60;

/// Sizes that the driver takes for blocks (nbd.c, `nbd_set_size`).
const BLOCK_MIN: u32 = 512;
const BLOCK_MAX: u32 = 4096;

/// Why the kernel's driver could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    /// There is no driver.
    #[error("the kernel's driver nbd is not there: load it with `modprobe nbd`")]
    NoDriver,
    /// This user may not use it.
    #[error("not allowed to use the kernel's driver nbd: block devices are made and removed by root")]
    NotPermitted,
    /// A command failed.
    #[error("the kernel could not {what}: {source}")]
    Failed {
        /// What was asked for.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl DriverError {
    /// A command that failed.
    fn failed(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            _ => Self::Failed { what, source },
        }
    }
}

/// A device that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewDevice {
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes of a block.
    pub(crate) block: u32,
    /// What the server can, as on the wire (nbd proto.md, 'Transmission flags').
    pub(crate) flags: u16,
    /// It waits for another process if the one that serves it ends.
    pub(crate) waits: bool,
}

/// Bytes of a block of a device whose own are of that many bytes. `None`: the driver takes none that are as large.
pub(crate) fn block_size(bytes: u32) -> Option<u32> {
    Some(bytes.max(BLOCK_MIN)).filter(|block| *block <= BLOCK_MAX)
}

/// Is the device of that number connected, or does it wait, and is it one of that source? Another program may have made one of the
/// same number.
pub(crate) fn is_connected(id: u32, source: &str) -> bool {
    let folder = Path::new("/sys/block").join(format!("nbd{id}"));
    // Kernels before 5.14 do not know whose it is.
    let is_of_source = |backend: String| backend.trim_end_matches('\n') == source;
    folder.join("pid").exists() && fs::read_to_string(folder.join("backend")).map_or(true, is_of_source)
}

/// The driver.
pub(crate) struct Driver(Netlink);

impl Driver {
    /// Opens it.
    pub(crate) fn open() -> Result<Self, DriverError> {
        Netlink::open(FAMILY).map(Self).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DriverError::NoDriver,
            _ => DriverError::failed("find the driver nbd")(error),
        })
    }

    /// Makes a device of that source, whose requests go to that socket, and gives its number. It is usable, and its partitions have been looked
    /// for, when this returns.
    pub(crate) fn connect(
        &mut self,
        device: NewDevice,
        source: &str,
        socket: BorrowedFd<'_>,
    ) -> Result<u32, DriverError> {
        let attributes = Attributes::default()
            .u64(SIZE_BYTES, device.size)
            .u64(BLOCK_SIZE_BYTES, device.block.into())
            .u64(SERVER_FLAGS, device.flags.into())
            .u64(DEAD_CONN_TIMEOUT, if device.waits { WAITS } else { 0 })
            .text(BACKEND_IDENTIFIER, source);
        let attributes = attributes.nested(SOCKETS, &sockets(socket));
        let failed = DriverError::failed("make a device of nbd");
        let index = self.0.ask(CONNECT, VERSION, &attributes, INDEX).map_err(&failed)?;
        let index = index.and_then(|index| message::u32_at(&index, 0));
        index.ok_or_else(|| failed(io::Error::new(io::ErrorKind::InvalidData, "it has no number")))
    }

    /// Has a device of that source, which waits, go on with that socket.
    pub(crate) fn reconnect(
        &mut self,
        id: u32,
        source: &str,
        socket: BorrowedFd<'_>,
    ) -> Result<(), DriverError> {
        let attributes = Attributes::default().u32(INDEX, id).text(BACKEND_IDENTIFIER, source);
        let attributes = attributes.nested(SOCKETS, &sockets(socket));
        let asked = self.0.ask(RECONFIGURE, VERSION, &attributes, INDEX);
        asked.map(drop).map_err(DriverError::failed("take a device of nbd over"))
    }

    /// Gives a device of that source another size, in bytes, although it may be in use.
    pub(crate) fn resize(&mut self, id: u32, source: &str, size: u64) -> Result<(), DriverError> {
        let attributes = Attributes::default().u32(INDEX, id).text(BACKEND_IDENTIFIER, source);
        let attributes = attributes.u64(SIZE_BYTES, size);
        let asked = self.0.ask(RECONFIGURE, VERSION, &attributes, INDEX);
        asked.map(drop).map_err(DriverError::failed("change the size of a device of nbd"))
    }

    /// Ends a device of that source, although it may be in use. One that has ended is no error.
    pub(crate) fn disconnect(&mut self, id: u32, source: &str) -> Result<(), DriverError> {
        let asked = self.0.ask(DISCONNECT, VERSION, &Attributes::default().u32(INDEX, id), INDEX);
        match asked {
            Ok(_) => Ok(()),
            Err(_) if !is_connected(id, source) => Ok(()),
            Err(error) => Err(DriverError::failed("end a device of nbd")(error)),
        }
    }
}

fn sockets(socket: BorrowedFd<'_>) -> Attributes {
    let descriptor = socket.as_raw_fd().cast_unsigned();
    Attributes::default().nested(SOCKET_ITEM, &Attributes::default().u32(SOCKET_FD, descriptor))
}
