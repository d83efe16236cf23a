//! Work of open images that needs more than their machines: futures that run on the reactor alongside the machines.

use super::commands::CephCommand;
use super::error::Error;
use super::image_key::ImageKey;
use super::operator::{JobFuture, OperationProgress};
use crate::mailbox::Mailbox;
use onego_buf::List;
use onego_rbd::{Copied, ExternalRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Jobs in progress. Each image has a bounded number of operations, and no more copies than changes in flight.
pub(super) struct Operations {
    mailbox: Arc<Mailbox<CephCommand>>,
    running: Vec<RunningJob>,
}

struct RunningJob {
    image: ImageKey,
    job: Job,
    alarm: Arc<Alarm>,
}

pub(super) enum Job {
    Operation(u32, JobFuture<()>, OperationProgress),
    Copy(u64, JobFuture<Copied>),
    Read(onego_rbd::Ticket, ExternalRead),
}

pub(super) enum JobEvent {
    Progress(u32, u64, u64),
    Ended(u32, Result<(), Error>),
    Copied(u64, Result<Copied, Error>),
    Read(onego_rbd::Ticket, Result<List, onego_rbd::Error>),
}

impl Job {
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<JobEvent> {
        match self {
            Self::Operation(number, work, progress) => match work.as_mut().poll(cx) {
                Poll::Ready(result) => Some(JobEvent::Ended(*number, result)),
                Poll::Pending => progress.take().map(|(done, all)| JobEvent::Progress(*number, done, all)),
            },
            Self::Copy(object, work) => match work.as_mut().poll(cx) {
                Poll::Ready(result) => Some(JobEvent::Copied(*object, result)),
                Poll::Pending => None,
            },
            Self::Read(ticket, work) => match work.as_mut().poll(cx) {
                Poll::Ready(result) => Some(JobEvent::Read(*ticket, result)),
                Poll::Pending => None,
            },
        }
    }
}

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

    /// Adds a job, which starts with the next [`poll`](Self::poll).
    pub(super) fn begin(&mut self, image: ImageKey, job: Job) {
        let alarm = Arc::new(Alarm { rung: AtomicBool::new(true), mailbox: Arc::clone(&self.mailbox) });
        self.running.push(RunningJob { image, job, alarm });
    }

    pub(super) fn break_off(&mut self, image: ImageKey, operation: u32) {
        let is_it = |job: &Job| matches!(job, Job::Operation(number, ..) if *number == operation);
        self.running.retain(|running| running.image != image || !is_it(&running.job));
    }

    pub(super) fn forget(&mut self, image: ImageKey) {
        self.running.retain(|running| running.image != image);
    }

    /// Polls all woken jobs and returns their events.
    pub(super) fn poll(&mut self) -> Vec<(ImageKey, JobEvent)> {
        let mut events = Vec::new();
        self.running.retain_mut(|running| {
            if !running.alarm.rung.swap(false, Ordering::Acquire) {
                return true;
            }
            let waker = Waker::from(Arc::clone(&running.alarm));
            let event = running.job.poll(&mut Context::from_waker(&waker));
            let is_over = !matches!(event, None | Some(JobEvent::Progress(..)));
            events.extend(event.map(|event| (running.image, event)));
            !is_over
        });
        events
    }
}
