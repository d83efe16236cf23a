//! What is served, and to whom it is named.

use super::limits::{EXPORTS_MAX, PAYLOAD_MAX};
use crate::operations::Operations;
use onego_block::{Device, Geometry};
use onego_nbd::codec::{BlockSizes, ExportInfo, HeaderStyle, STRING_MAX, TransmissionFlags};
use onego_wire::Time;
use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};
use std::time::Duration;
use thiserror::Error;

/// Sizes that the protocol allows for blocks (nbd proto.md, 'Size constraints').
const BLOCK_MAX: u32 = 64 << 10;
const PREFERRED_MIN: u32 = 512;

/// A device that clients can choose by its name.
#[derive(Clone)]
pub struct Export {
    /// Its name, of at most 4096 bytes. The empty name is that of the default export. Without one of that name, the only
    /// export is the default.
    pub name: String,
    /// What to show a user, of at most 4096 bytes; may be empty.
    pub description: String,
    /// The device. Its size may change while it is served: clients that come later see the new size, and requests of all
    /// clients are held against it.
    pub device: Rc<dyn Device>,
    /// Clients may not change the device.
    pub read_only: bool,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why an export is not added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExportError {
    /// Clients could not name it.
    #[error("an export needs a name of at most 4096 bytes without a zero byte, and this one has {0} bytes")]
    Name(usize),
    /// Clients could not read it.
    #[error("the description of an export has at most 4096 bytes, and this one has {0}")]
    Description(usize),
    /// There is one of that name.
    #[error("there is an export {0:?} already: remove it first, or choose another name")]
    Exists(String),
    /// There are too many.
    #[error("there are {EXPORTS_MAX} exports already: remove one first, or start another server")]
    TooMany,
    /// The protocol has no blocks of that size.
    #[error("the device has blocks of {0} bytes: NBD has blocks of powers of two up to 65536 bytes")]
    Block(u32),
}

/// An export that is served, or was until it was removed.
pub(super) struct Served {
    export: Export,
    pub(super) operations: Operations,
    removed: Cell<bool>,
}

impl Served {
    pub(super) fn name(&self) -> &str {
        &self.export.name
    }

    pub(super) fn description(&self) -> &str {
        &self.export.description
    }

    pub(super) fn device(&self) -> &dyn Device {
        &*self.export.device
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.get()
    }

    /// What the device is now, for clients of this export.
    #[inline]
    pub(super) fn geometry(&self) -> Geometry {
        let mut geometry = self.export.device.geometry();
        geometry.read_only |= self.export.read_only;
        // The bytes of a block that is there in part could not be reached (nbd proto.md, 'Size constraints').
        geometry.size = geometry.whole_blocks(geometry.size);
        geometry
    }

    /// Size, and what a client of that style may use.
    pub(super) fn info(&self, style: HeaderStyle, contexts: bool) -> ExportInfo {
        info(&self.geometry(), style, contexts)
    }

    /// What sizes of requests suit the device.
    pub(super) fn block_sizes(&self) -> BlockSizes {
        let geometry = self.geometry();
        let minimum = geometry.block.max(1);
        let preferred = geometry.preferred.max(minimum).max(PREFERRED_MIN);
        let preferred = preferred.checked_next_power_of_two().unwrap_or(1 << 31).min(PAYLOAD_MAX as u32);
        BlockSizes { minimum, preferred, payload_max: PAYLOAD_MAX as u32 }
    }
}

/// Size and flags of a device for a client of that style (nbd proto.md, 'Transmission flags').
fn info(geometry: &Geometry, style: HeaderStyle, contexts: bool) -> ExportInfo {
    type Flags = TransmissionFlags;
    let writable = !geometry.read_only;
    let flags = Flags::HAS_FLAGS | Flags::SEND_FLUSH | Flags::SEND_FUA;
    let flags = flags
        .with(Flags::READ_ONLY, geometry.read_only)
        .with(Flags::SEND_TRIM, writable && geometry.trim_granularity.is_some())
        .with(Flags::SEND_WRITE_ZEROES | Flags::SEND_FAST_ZERO, writable)
        .with(Flags::SEND_DF, style != HeaderStyle::Simple)
        // Connections may be shared out to several threads, each with an opening of its own.
        .with(Flags::CAN_MULTI_CONN, !geometry.volatile_cache || geometry.shared_flush)
        .with(Flags::BLOCK_STATUS_PAYLOAD, style == HeaderStyle::Extended && contexts);
    ExportInfo { size: geometry.size, flags }
}

/// Size and flags of a device for the kernel's client, which speaks without extensions: what a program tells it that gives it a
/// socket (see [`Server::attach`](crate::nbd::Server::attach)).
pub fn kernel_info(geometry: &Geometry, read_only: bool) -> ExportInfo {
    let mut geometry = *geometry;
    geometry.read_only |= read_only;
    info(&geometry, HeaderStyle::Simple, false)
}

/// All exports of a server.
#[derive(Default)]
pub(super) struct Exports {
    /// From how long on a request is slow.
    slow: Option<Duration>,
    served: Vec<Rc<Served>>,
    /// Removed, and still in use by connections or requests.
    retired: Vec<Rc<Served>>,
    /// Those of both whose devices may wait for the time.
    timed: Vec<Weak<Served>>,
}

impl Exports {
    /// None yet. `slow`: requests that take as long are told of.
    pub(super) fn new(slow: Option<Duration>) -> Self {
        Self { slow, ..Self::default() }
    }

    pub(super) fn add(&mut self, export: Export) -> Result<(), ExportError> {
        let name = export.name.as_bytes();
        if name.len() > STRING_MAX || name.contains(&0) {
            return Err(ExportError::Name(name.len()));
        }
        if export.description.len() > STRING_MAX {
            return Err(ExportError::Description(export.description.len()));
        }
        if self.served.iter().any(|served| served.name() == export.name) {
            return Err(ExportError::Exists(export.name));
        }
        if self.served.len() >= EXPORTS_MAX {
            return Err(ExportError::TooMany);
        }
        let block = export.device.geometry().block;
        if !block.is_power_of_two() || block > BLOCK_MAX {
            return Err(ExportError::Block(block));
        }
        let operations = Operations::new(self.slow);
        let served = Rc::new(Served { export, operations, removed: Cell::new(false) });
        if served.device().keeps_time() {
            self.timed.push(Rc::downgrade(&served));
        }
        self.served.push(served);
        Ok(())
    }

    /// Removes an export. `false`: there is none of that name.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.served.iter().position(|served| served.name() == name) else { return false };
        let served = self.served.remove(at);
        served.removed.set(true);
        self.retired.push(served);
        self.forget_unused();
        true
    }

    /// Lets go of removed exports that nothing uses any more.
    pub(super) fn forget_unused(&mut self) {
        if self.retired.extract_if(.., |served| Rc::strong_count(served) == 1).count() > 0 {
            self.timed.retain(|served| served.strong_count() > 0);
        }
    }

    /// The export that a client means by a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Rc<Served>> {
        let named = self.served.iter().find(|served| served.name().as_bytes() == name);
        named.or_else(|| self.served.first().filter(|_| name.is_empty() && self.served.len() == 1))
    }

    /// Names, in the order in which they were added.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.served.iter().map(|served| served.name())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Served> {
        self.served.iter().map(|served| &**served)
    }

    /// When a device is to be called at the latest.
    pub(super) fn due_at(&self) -> Option<Time> {
        self.timed().filter_map(|served| served.device().due_at()).min()
    }

    /// Calls the devices that wait for the time.
    pub(super) fn due(&self, now: Time) {
        for served in self.timed() {
            if served.device().due_at().is_some_and(|at| at <= now) {
                served.device().due(now);
            }
        }
    }

    fn timed(&self) -> impl Iterator<Item = Rc<Served>> {
        self.timed.iter().filter_map(Weak::upgrade)
    }
}
