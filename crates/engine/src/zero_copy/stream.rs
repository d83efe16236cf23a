use super::error_queue::{self, Notification};
use super::policy::{Access, Counters, Policy, Shape};
use super::settings::Settings;
use super::tracker::Tracker;
use onego_buf::List;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) struct Stream {
    policy: Policy,
    in_use: Tracker<List>,
    calls: u64,
}

impl Stream {
    /// Creates the state of a new connection. Returns `None` if zero-copy is off or the kernel does not support it.
    pub(crate) fn new(socket: impl AsFd, settings: Settings) -> Option<Box<Self>> {
        let policy = Policy::new(settings.mode, settings.thresholds);
        if policy.is_off() {
            return None;
        }
        match error_queue::enable(socket) {
            Ok(()) => Some(Box::new(Self { policy, in_use: Tracker::default(), calls: 0 })),
            Err(error) => {
                tracing::warn!(%error, "no zero-copy sends on a connection: the kernel copies");
                None
            }
        }
    }

    /// Sends leading bytes of `list` without a copy, and cuts them off. Returns the bytes offered, and those that the
    /// socket took; `None` if a copying send is to be made.
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
        // There is no room for more notifications: copy this send.
        (result != Err(Errno::NOBUFS)).then_some((asked, result))
    }

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

    pub(crate) fn is_idle(&self) -> bool {
        self.in_use.is_empty()
    }

    /// Leaks all memory, because the kernel still uses it.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_use));
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    pub(crate) fn counters(&self) -> Counters {
        self.policy.counters()
    }
}
