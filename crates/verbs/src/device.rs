//! Capabilities and errors of a device.

use crate::ffi::*;
use crate::objects::{Id, Reads, Room, WorkQueues};
use libc::c_int;
use rustix::io::ioctl_fionbio;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Maximum number of memory pieces of a send, if the device takes as many: headers, and a payload in a few parts.
const PIECES: c_int = 8;

/// Requested number of RDMA Reads in flight, as far as the device allows: that of Linux's NFS server.
const READS: c_int = 128;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) room: Room,
    pub(crate) reads: Reads,
    /// The device uses iWARP, where the sink of an RDMA Read is memory that the peer writes.
    pub(crate) is_iwarp: bool,
    /// The device can send messages that invalidate memory of the peer.
    pub(crate) invalidates: bool,
}

impl Limits {
    /// Returns the limits of a connection's device, for queues of these depths if it supports them.
    pub(crate) fn of(id: &Id, sends: u32, receives: u32) -> io::Result<Self> {
        let device = id.device()?;
        // SAFETY: all bytes of it may be zero.
        let mut attributes: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the device exists as long as the connection, and there is room for its attributes.
        crate::library::errno(unsafe {
            (id.rdma_core().ibv_query_device)(device.as_ptr(), &mut attributes)
        })?;
        // SAFETY: the device exists, and its type does not change.
        let kind = unsafe { (*device.as_ptr()).device };
        // SAFETY: as above.
        let transport = unsafe { (*kind).transport_type };
        let positive = |number: c_int| u32::try_from(number).unwrap_or(0).max(1);
        // Leaves room for the completions of all posted work.
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

/// Returns the descriptor on which a device reports errors of all its queues in this process.
pub(crate) fn descriptor(id: &Id) -> io::Result<BorrowedFd<'_>> {
    let device = id.device()?;
    // SAFETY: the device exists as long as the connection, and its descriptor does not change.
    let number = unsafe { (*device.as_ptr()).async_fd };
    // SAFETY: the device owns it, and keeps it open as long as it exists.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    ioctl_fionbio(descriptor, true)?;
    Ok(descriptor)
}

/// Errors of work queues by their [names](WorkQueues::name), kept for the queues' owners by any thread that reads a
/// device's events.
type Troubles = HashMap<usize, c_int>;

/// Locks the errors. The lock is held while events are read, so that a thread that finds none finds all errors here.
fn troubles() -> MutexGuard<'static, Troubles> {
    static TROUBLES: LazyLock<Mutex<Troubles>> = LazyLock::new(Mutex::default);
    TROUBLES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn trouble(id: &Id, queues: &WorkQueues) -> Option<String> {
    let mut troubles = troubles();
    read(id, &mut troubles);
    troubles.remove(&queues.name()).map(|event| id.rdma_core().device_event(event))
}

/// Drops the error of destroyed queues, whose name may be reused.
pub(crate) fn forget(name: usize) {
    troubles().remove(&name);
}

fn read(id: &Id, troubles: &mut Troubles) {
    let Ok(device) = id.device() else { return };
    let library = id.rdma_core();
    let mut event = ibv_async_event { element: std::ptr::null_mut(), event_type: 0 };
    // SAFETY: the device exists as long as the connection, and there is room for the event.
    while unsafe { (library.ibv_get_async_event)(device.as_ptr(), &mut event) } == 0 {
        match event.event_type {
            IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
                troubles.insert(event.element.addr(), event.event_type);
            }
            // Completion queues do not overrun, and other events are for device administration.
            other => tracing::debug!(event = library.device_event(other), "an event of a device"),
        }
        // SAFETY: the function above returned it, and it is acknowledged once.
        unsafe { (library.ibv_ack_async_event)(&mut event) };
    }
}
