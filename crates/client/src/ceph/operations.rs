//! The work of open images that needs more than their machines: futures that run on the reactor, beside the machines.

use super::commands::CephCommand;
use super::error::Error;
use super::image_key::ImageKey;
use super::operator::{OperationProgress, Work};
use crate::mailbox::Mailbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// What is under way. Each image has a bounded number of operations, and no more copies than changes in flight.
pub(super) struct Operations {
    mailbox: Arc<Mailbox<CephCommand>>,
    running: Vec<Running>,
}

/// What some work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// An operation that another client asked for, by its number.
    Operation(u32),
    /// The copy of an object.
    Copy(u64),
}

struct Running {
    image: ImageKey,
    job: Job,
    work: Work,
    progress: OperationProgress,
    alarm: Arc<Alarm>,
}

/// What has become of some work.
pub(super) enum JobEvent {
    Progress(u64, u64),
    Ended(Result<(), Error>),
}

/// Has work polled again.
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

    /// Takes work on. It begins with the next [`poll`](Self::poll).
    pub(super) fn begin(&mut self, image: ImageKey, job: Job, work: Work, progress: OperationProgress) {
        let alarm = Arc::new(Alarm { rung: AtomicBool::new(true), mailbox: Arc::clone(&self.mailbox) });
        self.running.push(Running { image, job, work, progress, alarm });
    }

    /// Forgets some work.
    pub(super) fn break_off(&mut self, image: ImageKey, job: Job) {
        self.running.retain(|running| running.image != image || running.job != job);
    }

    /// Forgets all work of an image that is closed.
    pub(super) fn forget(&mut self, image: ImageKey) {
        self.running.retain(|running| running.image != image);
    }

    /// Goes on with what can. Gives what has become of it.
    pub(super) fn poll(&mut self) -> Vec<(ImageKey, Job, JobEvent)> {
        let mut events = Vec::new();
        self.running.retain_mut(|running| {
            if !running.alarm.rung.swap(false, Ordering::Acquire) {
                return true;
            }
            let waker = Waker::from(Arc::clone(&running.alarm));
            let (image, job) = (running.image, running.job);
            match running.work.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => {
                    events.push((image, job, JobEvent::Ended(result)));
                    false
                }
                Poll::Pending => {
                    let progress = running.progress.take();
                    let event = progress.map(|(done, all)| JobEvent::Progress(done, all));
                    events.extend(event.map(|event| (image, job, event)));
                    true
                }
            }
        });
        events
    }
}
