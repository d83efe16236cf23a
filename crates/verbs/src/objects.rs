//! Owners of the libraries' objects. Each holds those that it depends on, so that they are destroyed in the right
//! order.
//!
//! The libraries lock shared state. An object belongs to one endpoint or one listener, whose methods take `&mut self`.

use crate::address::{self, RawAddress};
use crate::ffi::*;
use crate::library::{Library, done, errno};
use libc::{c_int, c_void};
use rustix::io::ioctl_fionbio;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Limit on resolving a server's address, and its route, in milliseconds.
const RESOLVE_MS: c_int = 5000;

/// An owned C object.
type Raw<T> = NonNull<T>;

macro_rules! between_threads {
    ($($name:ident)*) => {$(
        // SAFETY: the libraries' functions may be called from any thread, and lock shared state.
        unsafe impl Send for $name {}
        // SAFETY: as above; and only one endpoint or listener uses it at a time.
        unsafe impl Sync for $name {}
    )*};
}

between_threads! { Events Id Domain Region CompletionEvents CompletionQueue WorkQueues }

/// Checks a new object for null, reporting `errno`.
fn made<T>(raw: *mut T) -> io::Result<Raw<T>> {
    NonNull::new(raw).ok_or_else(io::Error::last_os_error)
}

/// Reports a failed destruction, which is a fault of this crate or of the driver and leaks the object.
fn ended(what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(%error, "cannot destroy {what}");
    }
}

/// Borrows the descriptor with that number.
///
/// # Safety
/// It is open, and stays open for as long as the result is used.
unsafe fn descriptor<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: guaranteed by the caller.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Maps `WouldBlock` to `None`.
fn unless_nothing(result: io::Result<()>) -> io::Result<Option<()>> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Event channel of connections (`rdma_event_channel`).
#[derive(Debug)]
pub(crate) struct Events {
    raw: Raw<rdma_event_channel>,
    rdma_core: &'static Library,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: c_int,
    pub(crate) status: c_int,
    pub(crate) private_data: Vec<u8>,
    /// Numbers of RDMA Reads that the peer wants in flight, and that it answers at a time.
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    asked: Option<Raw<rdma_cm_id>>,
}

impl Events {
    pub(crate) fn open(rdma_core: &'static Library) -> io::Result<Arc<Self>> {
        // SAFETY: the function takes no arguments.
        let raw = made(unsafe { (rdma_core.rdma_create_event_channel)() })?;
        let this = Arc::new(Self { raw, rdma_core });
        ioctl_fionbio(this.descriptor(), true)?;
        Ok(this)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel exists as long as `self`, and is not written.
        let number = unsafe { (*self.raw.as_ptr()).fd };
        // SAFETY: the channel owns it, and keeps it open as long as it exists.
        unsafe { descriptor(number) }
    }

    pub(crate) fn next(&self) -> io::Result<Option<Event>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel exists, and there is room for the event.
        let result = done(unsafe { (self.rdma_core.rdma_get_cm_event)(self.raw.as_ptr(), &mut raw) });
        if unless_nothing(result)?.is_none() {
            return Ok(None);
        }
        // SAFETY: the function returned an event, which is valid until it is acknowledged.
        let event = unsafe { *raw };
        let private_data = if event.param.private_data.is_null() {
            Vec::new()
        } else {
            let (data, len) = (event.param.private_data.cast::<u8>(), event.param.private_data_len);
            // SAFETY: it points to `len` bytes, which live as long as the event.
            unsafe { std::slice::from_raw_parts(data, len.into()) }.to_vec()
        };
        let asked = (event.event == RDMA_CM_EVENT_CONNECT_REQUEST).then_some(event.id);
        // SAFETY: the event is acknowledged once, and not used afterwards.
        ended("an event", done(unsafe { (self.rdma_core.rdma_ack_cm_event)(raw) }));
        Ok(Some(Event {
            kind: event.event,
            status: event.status,
            private_data,
            responder_resources: event.param.responder_resources,
            initiator_depth: event.param.initiator_depth,
            asked: asked.and_then(NonNull::new),
        }))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: every connection that uses the channel holds it, so there is none.
        unsafe { (self.rdma_core.rdma_destroy_event_channel)(self.raw.as_ptr()) };
    }
}

/// A connection or a listener (`rdma_cm_id`).
#[derive(Debug)]
pub(crate) struct Id {
    raw: Raw<rdma_cm_id>,
    events: Arc<Events>,
}

impl Id {
    pub(crate) fn new(events: &Arc<Events>) -> io::Result<Arc<Self>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel exists, and there is room for the connection.
        let made = unsafe {
            (events.rdma_core.rdma_create_id)(events.raw.as_ptr(), &mut raw, ptr::null_mut(), RDMA_PS_TCP)
        };
        done(made)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::Other)?;
        Ok(Arc::new(Self { raw, events: Arc::clone(events) }))
    }

    /// Takes the connection of a requesting client, and moves its events from the listener's channel `listened` to its
    /// own.
    pub(crate) fn of_client(listened: &Arc<Events>, event: &mut Event) -> io::Result<Option<Arc<Self>>> {
        let Some(raw) = event.asked.take() else { return Ok(None) };
        let mut id = Self { raw, events: Arc::clone(listened) };
        let events = Events::open(id.rdma_core())?;
        // SAFETY: both exist; no event of the connection is unacknowledged.
        done(unsafe { (events.rdma_core.rdma_migrate_id)(raw.as_ptr(), events.raw.as_ptr()) })?;
        id.events = events;
        Ok(Some(Arc::new(id)))
    }

    pub(crate) fn rdma_core(&self) -> &'static Library {
        self.events.rdma_core
    }

    pub(crate) fn events(&self) -> &Arc<Events> {
        &self.events
    }

    fn get(&self) -> rdma_cm_id {
        // SAFETY: it exists as long as `self`, and only the library's functions write it, none of which is running:
        // only the owner of `self` calls them.
        unsafe { *self.raw.as_ptr() }
    }

    pub(crate) fn device(&self) -> io::Result<Raw<ibv_context>> {
        let device = self.get().verbs;
        NonNull::new(device).ok_or_else(|| io::Error::other("the connection has no device"))
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        address::from_raw(&self.get().route.addr.src_storage)
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        address::from_raw(&self.get().route.addr.dst_storage)
    }

    pub(crate) fn listen(&self, addr: SocketAddr, backlog: c_int) -> io::Result<()> {
        let mut addr = RawAddress::new(addr);
        // SAFETY: the connection exists, and the address is read during the call.
        done(unsafe { (self.rdma_core().rdma_bind_addr)(self.raw.as_ptr(), addr.as_mut_ptr()) })?;
        // SAFETY: the connection exists.
        done(unsafe { (self.rdma_core().rdma_listen)(self.raw.as_ptr(), backlog) })
    }

    pub(crate) fn resolve_address(&self, server: SocketAddr) -> io::Result<()> {
        let mut addr = RawAddress::new(server);
        let raw = self.raw.as_ptr();
        // SAFETY: the connection exists, and the address is read during the call.
        done(unsafe {
            (self.rdma_core().rdma_resolve_addr)(raw, ptr::null_mut(), addr.as_mut_ptr(), RESOLVE_MS)
        })
    }

    pub(crate) fn resolve_route(&self) -> io::Result<()> {
        // SAFETY: the connection exists.
        done(unsafe { (self.rdma_core().rdma_resolve_route)(self.raw.as_ptr(), RESOLVE_MS) })
    }

    pub(crate) fn connect(&self, private_data: &[u8], reads: Reads) -> io::Result<()> {
        let mut parameters = parameters(private_data, reads);
        // SAFETY: the connection exists; parameters and private data are read during the call.
        done(unsafe { (self.rdma_core().rdma_connect)(self.raw.as_ptr(), &mut parameters) })
    }

    pub(crate) fn accept(&self, private_data: &[u8], reads: Reads) -> io::Result<()> {
        let mut parameters = parameters(private_data, reads);
        // SAFETY: as above.
        done(unsafe { (self.rdma_core().rdma_accept)(self.raw.as_ptr(), &mut parameters) })
    }

    pub(crate) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let (data, len) = (private_data.as_ptr().cast(), private_data.len() as u8);
        // SAFETY: the connection exists; private data is read during the call.
        done(unsafe { (self.rdma_core().rdma_reject)(self.raw.as_ptr(), data, len) })
    }

    pub(crate) fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the connection exists.
        done(unsafe { (self.rdma_core().rdma_disconnect)(self.raw.as_ptr()) })
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: all users of the connection or its device hold it, so there are none; all its events are
        // acknowledged.
        ended("a connection", done(unsafe { (self.rdma_core().rdma_destroy_id)(self.raw.as_ptr()) }));
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Reads {
    pub(crate) answered: u8,
    pub(crate) asked: u8,
}

/// Retransmissions of an unacknowledged packet, at their maximum. Only some transports use the value.
const RETRIES: u8 = 7;

fn parameters(private_data: &[u8], reads: Reads) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private_data.as_ptr().cast(),
        private_data_len: private_data.len() as u8,
        responder_resources: reads.answered,
        initiator_depth: reads.asked,
        flow_control: 0,
        retry_count: RETRIES,
        // A message without a posted receive ends the connection, on every transport.
        rnr_retry_count: 0,
        srq: 0,
        qp_num: 0,
    }
}

/// A protection domain: only its own work queues can use its registrations.
#[derive(Debug)]
pub(crate) struct Domain {
    raw: Raw<ibv_pd>,
    id: Arc<Id>,
}

impl Domain {
    pub(crate) fn new(id: &Arc<Id>) -> io::Result<Arc<Self>> {
        let device = id.device()?;
        // SAFETY: the device exists as long as the connection.
        let raw = made(unsafe { (id.rdma_core().ibv_alloc_pd)(device.as_ptr()) })?;
        Ok(Arc::new(Self { raw, id: Arc::clone(id) }))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: all users of the domain hold it, so there are none.
        ended(
            "a protection domain",
            errno(unsafe { (self.id.rdma_core().ibv_dealloc_pd)(self.raw.as_ptr()) }),
        );
    }
}

/// Registered memory (`ibv_mr`).
#[derive(Debug)]
pub(crate) struct Region {
    raw: Raw<ibv_mr>,
    domain: Arc<Domain>,
}

impl Region {
    /// Registers memory, with access rights of the device and of the peer (`IBV_ACCESS_`).
    ///
    /// # Safety
    /// As long as the result and work queues of the domain exist, the peer may access the memory as its rights allow.
    pub(crate) unsafe fn new(
        domain: &Arc<Domain>,
        start: *const u8,
        len: usize,
        access: c_int,
    ) -> io::Result<Self> {
        let library = domain.id.rdma_core();
        // SAFETY: the domain exists; the rest is guaranteed by the caller.
        let raw = unsafe {
            (library.ibv_reg_mr)(domain.raw.as_ptr(), start.cast_mut().cast::<c_void>(), len, access)
        };
        Ok(Self { raw: made(raw)?, domain: Arc::clone(domain) })
    }

    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: it exists as long as `self`, and does not change.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    /// Deregisters the memory: neither the device nor the peer uses it afterwards.
    pub(crate) fn release(self) -> Result<(), (io::Error, Self)> {
        // SAFETY: it exists, and if the call succeeds it is not used afterwards.
        match errno(unsafe { (self.domain.id.rdma_core().ibv_dereg_mr)(self.raw.as_ptr()) }) {
            Ok(()) => {
                let this = std::mem::ManuallyDrop::new(self);
                // SAFETY: `this` is not dropped, so its domain is released only here.
                drop(unsafe { ptr::read(&this.domain) });
                Ok(())
            }
            Err(error) => Err((error, self)),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it exists, and is not used afterwards.
        let result = unsafe { (self.domain.id.rdma_core().ibv_dereg_mr)(self.raw.as_ptr()) };
        ended("a registration of memory", errno(result));
    }
}

/// Channel for notifications of completions (`ibv_comp_channel`).
#[derive(Debug)]
pub(crate) struct CompletionEvents {
    raw: Raw<ibv_comp_channel>,
    id: Arc<Id>,
}

impl CompletionEvents {
    fn new(id: &Arc<Id>) -> io::Result<Self> {
        let device = id.device()?;
        // SAFETY: the device exists as long as the connection.
        let raw = made(unsafe { (id.rdma_core().ibv_create_comp_channel)(device.as_ptr()) })?;
        let this = Self { raw, id: Arc::clone(id) };
        ioctl_fionbio(this.descriptor(), true)?;
        Ok(this)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel exists as long as `self`, and its descriptor does not change.
        let number = unsafe { (*self.raw.as_ptr()).fd };
        // SAFETY: the channel owns it, and keeps it open as long as it exists.
        unsafe { descriptor(number) }
    }
}

impl Drop for CompletionEvents {
    fn drop(&mut self) {
        let destroy = self.id.rdma_core().ibv_destroy_comp_channel;
        // SAFETY: the one queue that uses the channel holds it, and is gone.
        ended("a channel of completions", errno(unsafe { destroy(self.raw.as_ptr()) }));
    }
}

/// Completion queue (`ibv_cq`).
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    raw: Raw<ibv_cq>,
    events: CompletionEvents,
}

impl CompletionQueue {
    pub(crate) fn new(id: &Arc<Id>, depth: u32) -> io::Result<Arc<Self>> {
        let events = CompletionEvents::new(id)?;
        let depth = c_int::try_from(depth).unwrap_or(c_int::MAX);
        let (device, channel) = (id.device()?.as_ptr(), events.raw.as_ptr());
        // SAFETY: device and channel exist, and the queue holds both.
        let raw = unsafe { (id.rdma_core().ibv_create_cq)(device, depth, ptr::null_mut(), channel, 0) };
        Ok(Arc::new(Self { raw: made(raw)?, events }))
    }

    fn rdma_core(&self) -> &'static Library {
        self.events.id.rdma_core()
    }

    fn ops(&self) -> &ibv_context_ops {
        // SAFETY: the queue exists as long as `self`, and its device does not change.
        let device = unsafe { (*self.raw.as_ptr()).context };
        // SAFETY: the device exists as long as the queue, and its functions do not change.
        unsafe { &(*device).ops }
    }

    /// Returns the descriptor that becomes readable after the completion that follows [`arm`](Self::arm).
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.events.descriptor()
    }

    /// Takes as many completions as there are and fit, and returns their number.
    pub(crate) fn poll(&self, into: &mut [ibv_wc]) -> io::Result<usize> {
        let room = c_int::try_from(into.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue exists, and `into` has room for `room` completions.
        let count = unsafe { (self.ops().poll_cq)(self.raw.as_ptr(), room, into.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| io::Error::other("cannot poll completions"))
    }

    /// Requests notification of the next completion. Earlier ones may not be reported: poll once more.
    pub(crate) fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue exists.
        errno(unsafe { (self.ops().req_notify_cq)(self.raw.as_ptr(), 0) })
    }

    /// Returns whether there was a completion since [`arm`](Self::arm); reports it once.
    pub(crate) fn was_told(&self) -> io::Result<bool> {
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        let channel = self.events.raw.as_ptr();
        // SAFETY: the channel exists, and there is room for the event.
        let result = done(unsafe { (self.rdma_core().ibv_get_cq_event)(channel, &mut queue, &mut context) });
        let told = unless_nothing(result)?.is_some();
        if told {
            // SAFETY: the queue is the only one of its channel, and had one event.
            unsafe { (self.rdma_core().ibv_ack_cq_events)(self.raw.as_ptr(), 1) };
        }
        Ok(told)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the work queues that use it hold it, and are gone; all its events are acknowledged.
        ended("a completion queue", errno(unsafe { (self.rdma_core().ibv_destroy_cq)(self.raw.as_ptr()) }));
    }
}

/// Capacity of work queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    pub(crate) pieces: u32,
}

/// The two work queues of a connection (`ibv_qp`). Once they are dropped the device does not access their memory.
#[derive(Debug)]
pub(crate) struct WorkQueues {
    raw: Raw<ibv_qp>,
    id: Arc<Id>,
    _domain: Arc<Domain>,
    _completions: Arc<CompletionQueue>,
}

impl WorkQueues {
    pub(crate) fn new(
        domain: &Arc<Domain>,
        completions: &Arc<CompletionQueue>,
        room: Room,
    ) -> io::Result<Self> {
        let id = Arc::clone(&domain.id);
        let mut attributes = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: completions.raw.as_ptr(),
            recv_cq: completions.raw.as_ptr(),
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: room.sends,
                max_recv_wr: room.receives,
                max_send_sge: room.pieces,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
        };
        let domain = Arc::clone(domain);
        // SAFETY: connection, domain and completion queue exist, and the work queues hold them.
        done(unsafe {
            (id.rdma_core().rdma_create_qp)(id.raw.as_ptr(), domain.raw.as_ptr(), &mut attributes)
        })?;
        let raw = NonNull::new(id.get().qp).ok_or(io::ErrorKind::Other)?;
        Ok(Self { raw, id, _domain: domain, _completions: Arc::clone(completions) })
    }

    pub(crate) fn name(&self) -> usize {
        self.raw.as_ptr().addr()
    }

    fn ops(&self) -> &ibv_context_ops {
        // SAFETY: the queues exist as long as `self`, and their device does not change.
        let device = unsafe { (*self.raw.as_ptr()).context };
        // SAFETY: the device exists as long as the queues, and its functions do not change.
        unsafe { &(*device).ops }
    }

    /// Posts work.
    ///
    /// # Safety
    /// Until it is complete, or `self` dropped, its memory stays in place and registered, and is not written by others;
    /// if the work writes it, not read either.
    pub(crate) unsafe fn send(&self, work: &mut ibv_send_wr) -> io::Result<()> {
        let mut refused = ptr::null_mut();
        // SAFETY: the queues exist, and the list of work has one entry; the rest is guaranteed by the caller.
        errno(unsafe { (self.ops().post_send)(self.raw.as_ptr(), work, &mut refused) })
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    pub(crate) unsafe fn receive(&self, work: &mut ibv_recv_wr) -> io::Result<()> {
        let mut refused = ptr::null_mut();
        // SAFETY: as for `send`.
        errno(unsafe { (self.ops().post_recv)(self.raw.as_ptr(), work, &mut refused) })
    }
}

impl Drop for WorkQueues {
    fn drop(&mut self) {
        // SAFETY: they belong to the connection, and are not used afterwards.
        unsafe { (self.id.rdma_core().rdma_destroy_qp)(self.id.raw.as_ptr()) };
    }
}
