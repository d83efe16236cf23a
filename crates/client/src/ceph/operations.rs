//! Operations that other users of an image ask its owner for, while they are carried out: futures that run on the reactor,
//! beside its machines.

use super::commands::CephCommand;
use super::error::Error;
use super::image_key::{ImageKey, OpenedImage};
use crate::mailbox::Mailbox;
use onego_rbd::notify::Operation;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// An operation under way.
pub(crate) type OperationFuture = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// Begins operations on one image; each has a number.
pub(crate) type Operator =
    Box<dyn Fn((u32, Operation), OpenedImage, OperationProgress) -> OperationFuture + Send>;

/// How far an operation is: (done, all), in whatever it counts.
#[derive(Clone, Default)]
pub(crate) struct OperationProgress(Rc<Cell<Option<(u64, u64)>>>);

impl OperationProgress {
    pub(crate) fn set(&self, done: u64, all: u64) {
        self.0.set(Some((done, all)));
    }
}

/// The operations under way. Each image has a bounded number of them.
pub(super) struct Operations {
    mailbox: Arc<Mailbox<CephCommand>>,
    running: Vec<Running>,
}

struct Running {
    image: ImageKey,
    number: u32,
    future: OperationFuture,
    progress: OperationProgress,
    alarm: Arc<Alarm>,
}

/// What has become of an operation.
pub(super) enum OperationEvent {
    Progress(u64, u64),
    Ended(Result<(), Error>),
}

/// Has an operation polled again.
struct Alarm {
    rung: AtomicBool,
    mailbox: Arc<Mailbox<CephCommand>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.mailbox.wake_reactor();
    }
}

impl Operations {
    pub(super) fn new(mailbox: Arc<Mailbox<CephCommand>>) -> Self {
        Self { mailbox, running: Vec::new() }
    }

    /// Takes an operation on. It begins with the next [`poll`](Self::poll).
    pub(super) fn begin(
        &mut self,
        image: ImageKey,
        number: u32,
        future: OperationFuture,
        progress: OperationProgress,
    ) {
        let alarm = Arc::new(Alarm { rung: AtomicBool::new(true), mailbox: Arc::clone(&self.mailbox) });
        self.running.push(Running { image, number, future, progress, alarm });
    }

    /// Forgets an operation.
    pub(super) fn break_off(&mut self, image: ImageKey, number: u32) {
        self.running.retain(|running| running.image != image || running.number != number);
    }

    /// Goes on with the operations that can. Gives what has become of them: image, number of the operation, and event.
    pub(super) fn poll(&mut self) -> Vec<(ImageKey, u32, OperationEvent)> {
        let mut events = Vec::new();
        self.running.retain_mut(|running| {
            if !running.alarm.rung.swap(false, Ordering::Acquire) {
                return true;
            }
            let waker = Waker::from(Arc::clone(&running.alarm));
            let (image, number) = (running.image, running.number);
            match running.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => {
                    events.push((image, number, OperationEvent::Ended(result)));
                    false
                }
                Poll::Pending => {
                    let progress = running.progress.0.take();
                    let event = progress.map(|(done, all)| OperationEvent::Progress(done, all));
                    events.extend(event.map(|event| (image, number, event)));
                    true
                }
            }
        });
        events
    }
}
