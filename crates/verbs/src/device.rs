//! What a device can do, and what it says of itself.

use crate::ffi::*;
use crate::objects::{Id, Reads, Room, WorkQueues};
use libc::c_int;
use rustix::io::ioctl_fionbio;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Pieces of memory of one send, if the device takes as many: headers, and a payload that was cut a few times.
const PIECES: c_int = 8;

/// RDMA Reads under way at a time that are asked for, as far as the device goes: what Linux's server of NFS would have.
const READS: c_int = 128;

/// What a device can do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) room: Room,
    pub(crate) reads: Reads,
    /// Does it speak iWARP, where the sink of an RDMA Read is memory that the peer writes?
    pub(crate) is_iwarp: bool,
    /// Does it send messages that invalidate memory of the peer?
    pub(crate) invalidates: bool,
}

impl Limits {
    /// Of a connection's device, for queues of these depths if it has as many.
    pub(crate) fn of(id: &Id, sends: u32, receives: u32) -> io::Result<Self> {
        let device = id.device()?;
        // SAFETY: all bytes of it may be zero.
        let mut attributes: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the device is there as long as the connection, and there is room for what it says.
        crate::library::errno(unsafe {
            (id.rdma_core().ibv_query_device)(device.as_ptr(), &mut attributes)
        })?;
        // SAFETY: the device is there, and what it is does not change.
        let kind = unsafe { (*device.as_ptr()).device };
        // SAFETY: as above.
        let transport = unsafe { (*kind).transport_type };
        let positive = |number: c_int| u32::try_from(number).unwrap_or(0).max(1);
        // There is room for the completions of everything that is posted.
        let depth = positive(attributes.max_qp_wr).min(positive(attributes.max_cqe) / 2).max(1);
        let reads = |most: c_int| u8::try_from(most.clamp(0, READS)).unwrap_or(0);
        Ok(Self {
            room: Room {
                sends: sends.clamp(1, depth),
                receives: receives.clamp(1, depth),
                pieces: positive(attributes.max_sge.min(PIECES)),
            },
            reads: Reads {
                answered: reads(attributes.max_qp_rd_atom),
                asked: reads(attributes.max_qp_init_rd_atom),
            },
            is_iwarp: transport == IBV_TRANSPORT_IWARP,
            invalidates: attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS as u32 != 0,
        })
    }
}

/// Where a device tells of errors: of all its queues in this process, in one place.
pub(crate) fn descriptor(id: &Id) -> io::Result<BorrowedFd<'_>> {
    let device = id.device()?;
    // SAFETY: the device is there as long as the connection, and its descriptor does not change.
    let number = unsafe { (*device.as_ptr()).async_fd };
    // SAFETY: it is the device's own, which is open as long as it is there.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    ioctl_fionbio(descriptor, true)?;
    Ok(descriptor)
}

/// Errors of work queues, by their [names](WorkQueues::name), which those who read them have found and left for those
/// whom they concern.
type Troubles = HashMap<usize, c_int>;

/// It is locked while errors are read, so that who finds nothing to read finds everything here.
fn troubles() -> MutexGuard<'static, Troubles> {
    static TROUBLES: LazyLock<Mutex<Troubles>> = LazyLock::new(Mutex::default);
    TROUBLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has gone wrong with these queues, if anything has.
pub(crate) fn trouble(id: &Id, queues: &WorkQueues) -> Option<String> {
    let mut troubles = troubles();
    read(id, &mut troubles);
    troubles.remove(&queues.name()).map(|event| id.rdma_core().device_event(event))
}

/// Nobody will ask for the trouble of queues that are gone: their name may become that of others.
pub(crate) fn forget(name: usize) {
    troubles().remove(&name);
}

/// Reads what a device tells.
fn read(id: &Id, troubles: &mut Troubles) {
    let Ok(device) = id.device() else { return };
    let library = id.rdma_core();
    let mut event = ibv_async_event { element: std::ptr::null_mut(), event_type: 0 };
    // SAFETY: the device is there as long as the connection, and there is a place for the event.
    while unsafe { (library.ibv_get_async_event)(device.as_ptr(), &mut event) } == 0 {
        match event.event_type {
            IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
                troubles.insert(event.element.addr(), event.event_type);
            }
            // Completion queues do not overrun, and the rest is for those who manage devices.
            other => tracing::debug!(event = library.device_event(other), "a device says something"),
        }
        // SAFETY: it was given by the function above, and is acknowledged once.
        unsafe { (library.ibv_ack_async_event)(&mut event) };
    }
}
