use super::error_queue::{self, Notification};
use super::notifier::{Flush, Freed, Notifier, SlotId};
use super::policy::{Access, Counters, Policy, Shape};
use super::tracker::Tracker;
use crate::socket::MAX_SLICES;
use onego_buf::List;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, SocketType, sendmsg, sockopt};
use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Sends of one socket by `sendmsg`, with `MSG_ZEROCOPY` if the policy decides so.
///
/// The socket may be blocking or not. Dropping the sender with memory in use aborts the connection, so that the kernel
/// releases the memory.
pub struct SocketSender {
    socket: OwnedFd,
    policy: Policy,
    notifier: Notifier,
    in_use: Tracker<(List, SlotId)>,
}

impl SocketSender {
    /// Creates the sender of a connected socket.
    pub fn new(socket: OwnedFd, mut policy: Policy, flush: Flush) -> Self {
        if !policy.is_off()
            && let Err(error) = error_queue::enable(&socket)
        {
            tracing::warn!(%error, "no zero-copy sends on this socket: the kernel copies");
            policy.disable();
        }
        if sockopt::socket_type(&socket) != Ok(SocketType::STREAM) {
            policy = policy.of_datagrams();
        }
        Self { socket, policy, notifier: Notifier::new(flush), in_use: Tracker::default() }
    }

    /// Sends as many leading bytes of `list` as the socket takes, and returns their number. Keeps the memory of a
    /// zero-copy send until the kernel has released it.
    pub fn send(&mut self, mut list: List) -> io::Result<usize> {
        let bytes = if list.is_empty() { 0 } else { self.policy.decide(Shape::of(&list), || Access::Socket) };
        if bytes == 0 {
            return Ok(copy(self.socket.as_fd(), &list)?);
        }
        match error_queue::send(self.socket.as_fd(), &list, bytes).1 {
            Ok(sent) => {
                let slot = self.notifier.attach();
                self.in_use.push((list.split_to(sent), slot));
                Ok(sent)
            }
            // There is no room for more notifications: copy this send.
            Err(Errno::NOBUFS) => {
                self.policy.withdraw();
                Ok(copy(self.socket.as_fd(), &list)?)
            }
            Err(error) => {
                self.policy.withdraw();
                Err(error.into())
            }
        }
    }

    /// Processes the available notifications.
    pub fn reap(&mut self) -> io::Result<()> {
        loop {
            match error_queue::notification(self.socket.as_fd()) {
                Ok(Some(Notification { low, high, copied })) => {
                    let (policy, notifier) = (&mut self.policy, &mut self.notifier);
                    self.in_use.release(low, high, |(_, slot)| {
                        policy.report(copied);
                        notifier.release(slot, copied);
                    });
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until a notification arrives, nothing is in use, or the time is over; processes the notifications.
    pub fn wait(&mut self, patience: Duration) -> io::Result<()> {
        self.reap()?;
        if self.in_use.is_empty() {
            return Ok(());
        }
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        // Errors are always reported, and a notification is one.
        match poll(&mut [PollFd::new(&self.socket, PollFlags::empty())], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => self.reap(),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the kernel has released all memory. Returns `false` if the time is over before that.
    pub fn settle(&mut self, patience: Duration) -> io::Result<bool> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.wait(left)?;
            if self.in_use.is_empty() || left.is_zero() {
                return Ok(self.in_use.is_empty());
            }
        }
    }

    /// Closes the open slot; see [`Notifier::flush`].
    pub fn flush(&mut self) -> Option<SlotId> {
        self.notifier.flush()
    }

    /// Returns the next slot whose memory is free.
    pub fn next_freed(&mut self) -> Option<Freed> {
        self.notifier.next_freed()
    }

    /// Returns the socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the policy's decisions so far.
    pub fn counters(&self) -> Counters {
        self.policy.counters()
    }
}

fn copy(socket: BorrowedFd<'_>, list: &List) -> Result<usize, Errno> {
    let mut slices = SmallVec::<[IoSlice<'_>; MAX_SLICES]>::new();
    slices.extend(list.io_slices(MAX_SLICES));
    sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
}

const DROP_PATIENCE: Duration = Duration::from_secs(1);

impl Drop for SocketSender {
    fn drop(&mut self) {
        if self.in_use.is_empty() || self.reap().is_ok() && self.in_use.is_empty() {
            return;
        }
        error_queue::abort(self.socket.as_fd());
        if !matches!(self.settle(DROP_PATIENCE), Ok(true)) {
            tracing::error!("the kernel did not release the memory of sends in time: leaking it");
            std::mem::forget(std::mem::take(&mut self.in_use));
        }
    }
}
