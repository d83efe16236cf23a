use super::error_queue::{self, Notification};
use super::policy::{Access, Counters, Policy, Shape};
use super::settings::Settings;
use super::tracker::Tracker;
use onego_buf::List;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// The sends without a copy of one stream, for an engine that has the socket.
pub(crate) struct Stream {
    policy: Policy,
    in_use: Tracker<List>,
    /// System calls for notifications.
    calls: u64,
}

impl Stream {
    /// Of a new connection; `None`: the kernel cannot do it, or nobody wants it.
    pub(crate) fn new(socket: impl AsFd, settings: Settings) -> Option<Box<Self>> {
        let policy = Policy::new(settings.mode, settings.thresholds);
        if policy.is_off() {
            return None;
        }
        match error_queue::enable(socket) {
            Ok(()) => Some(Box::new(Self { policy, in_use: Tracker::default(), calls: 0 })),
            Err(error) => {
                tracing::warn!(%error, "the kernel cannot send without a copy on a connection: it copies");
                None
            }
        }
    }

    /// Sends the first bytes of `list` without a copy, and cuts them off. How many bytes were offered, and how many the
    /// socket took; `None`: it is to be sent with a copy.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        list: &mut List,
    ) -> Option<(usize, Result<usize, Errno>)> {
        let bytes = self.policy.decide(Shape::of(list), || Access::Socket);
        if bytes == 0 {
            return None;
        }
        let (asked, result) = error_queue::send(socket.as_fd(), list, bytes);
        match result {
            Ok(n) => self.in_use.push(list.split_to(n)),
            Err(_) => self.policy.withdraw(),
        }
        // As many notifications are outstanding as there is room for: this one is copied.
        (result != Err(Errno::NOBUFS)).then_some((asked, result))
    }

    /// Takes the notifications that have come.
    pub(crate) fn reap(&mut self, socket: &OwnedFd) {
        loop {
            self.calls += 1;
            match error_queue::notification(socket.as_fd()) {
                Ok(Some(Notification { low, high, copied })) => {
                    let Self { policy, in_use, .. } = self;
                    in_use.release(low, high, |_| policy.report(copied));
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Has the kernel let go of all memory?
    pub(crate) fn is_idle(&self) -> bool {
        self.in_use.is_empty()
    }

    /// Lets go of all memory for the kernel's sake, which still uses it: for ever.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_use));
    }

    /// System calls made for notifications so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// What was decided so far.
    pub(crate) fn counters(&self) -> Counters {
        self.policy.counters()
    }
}
