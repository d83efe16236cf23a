//! The export as a block device, and the state it shares with the machine.

use super::error::ClientError;
use super::negotiation::Agreed;
use crate::codec::TransmissionFlags;
use onego_block::{Device, Error, Geometry, Request};
use onego_wire::Time;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Maximum length of a read or write in bytes, even if the server accepts more.
const MAX_IO: u32 = 32 << 20;

#[derive(Default)]
pub(super) struct Shared {
    /// Requests that the machine has not taken yet. Their callers bound the number.
    pub(super) inbox: RefCell<VecDeque<Request>>,
    /// `None` until the first handshake has finished.
    geometry: Cell<Option<Geometry>>,
    failed: RefCell<Option<ClientError>>,
    waker: RefCell<Option<Waker>>,
    is_closed: Cell<bool>,
}

impl Shared {
    pub(super) fn set_agreed(&self, agreed: &Agreed) {
        self.geometry.set(Some(geometry(agreed)));
        self.wake();
    }

    pub(super) fn fail(&self, error: ClientError) {
        *self.failed.borrow_mut() = Some(error);
        self.wake();
    }

    pub(super) fn is_opened(&self) -> bool {
        self.geometry.get().is_some()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Fails queued and future requests.
    pub(super) fn close(&self, now: Time) {
        self.is_closed.set(true);
        let left = std::mem::take(&mut *self.inbox.borrow_mut());
        left.into_iter().for_each(|request| request.complete(now, Err(Error::Dropped)));
    }
}

fn geometry(agreed: &Agreed) -> Geometry {
    type Can = TransmissionFlags;
    let can = |flag| agreed.info.flags.contains(flag);
    let sizes = agreed.sizes;
    let mut geometry = Geometry::new(agreed.info.size);
    geometry.block = sizes.minimum;
    geometry.preferred = sizes.preferred;
    let most = sizes.payload_max.min(MAX_IO);
    geometry.max_io = u64::from(most - most % sizes.minimum);
    geometry.read_only = can(Can::READ_ONLY);
    geometry.volatile_cache = can(Can::SEND_FLUSH);
    geometry.shared_flush = can(Can::CAN_MULTI_CONN);
    geometry.trim_granularity = can(Can::SEND_TRIM).then_some(sizes.preferred);
    geometry
}

/// Future that resolves when the first connection is established or has failed.
pub struct Opened {
    pub(super) shared: Rc<Shared>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

impl Future for Opened {
    type Output = Result<(), ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.shared.failed.borrow().clone() {
            return Poll::Ready(Err(error));
        }
        if self.shared.is_opened() {
            return Poll::Ready(Ok(()));
        }
        *self.shared.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

pub(super) struct NbdDevice {
    pub(super) shared: Rc<Shared>,
}

impl Device for NbdDevice {
    /// Returns an empty geometry until the first handshake has finished.
    fn geometry(&self) -> Geometry {
        self.shared.geometry.get().unwrap_or(Geometry::new(0))
    }

    fn submit(&self, now: Time, request: Request) {
        match self.geometry().check(&request) {
            Ok(()) if self.shared.is_closed.get() => request.complete(now, Err(Error::Dropped)),
            Ok(()) => self.shared.inbox.borrow_mut().push_back(request),
            Err(error) => request.complete(now, Err(error)),
        }
    }
}
