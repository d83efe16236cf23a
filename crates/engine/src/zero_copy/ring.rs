use super::request::{Completion, Transfer, send, send_message};
use super::{Counters, Flush, Freed, Notifier, Policy, Registry, SlotId};
use crate::message::{Message, vectors};
use io_uring::squeue::Flags;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};
use onego_buf::List;
use rustix::net::{SocketType, sockopt};
use slab::Slab;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Sends that are queued for one submission at most.
const SUBMISSIONS: u32 = 64;

/// Completions that fit; a send without a copy has two.
const COMPLETIONS: u32 = 4096;

/// Sends whose memory the kernel uses at most; beyond, submitting waits.
const IN_USE: usize = 1024;

/// How long the kernel may take to let go of memory when a sender is dropped.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// The socket, as the only file that is registered with its ring.
pub(super) const SOCKET: Fd = Fd(0);

/// A ring for the sends of one socket, as good as the kernel can make it.
pub(super) fn open(socket: BorrowedFd<'_>) -> io::Result<IoUring> {
    let build = |deferred: bool| {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS);
        if deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        builder.build(SUBMISSIONS)
    };
    let ring = match build(true) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => build(false)?,
        ring => ring?,
    };
    ring.submitter().register_files(&[socket.as_raw_fd()])?;
    Ok(ring)
}

/// A send that the kernel has, or is to get.
struct Out {
    /// Kept until the kernel has let go of it.
    list: List,
    header: Option<Box<Message>>,
    /// Of a send without a copy.
    slot: Option<SlotId>,
    failed: bool,
}

/// Sends of one socket by io_uring, many a system call, without a copy where the policy says so.
///
/// On a stream they are made in order, each after the one before has gone whole. It belongs to the thread that opens it.
pub struct RingSender {
    ring: IoUring,
    socket: OwnedFd,
    is_stream: bool,
    policy: Policy,
    notifier: Notifier,
    registry: Registry,
    sends: Slab<Out>,
    /// Waiting to be submitted.
    queue: Vec<squeue::Entry>,
    #[expect(clippy::vec_box, reason = "a header must not move while the kernel may look at it")]
    spare: Vec<Box<Message>>,
}

impl RingSender {
    /// A connected socket's.
    pub fn open(socket: OwnedFd, policy: Policy, flush: Flush) -> io::Result<Self> {
        let is_stream = sockopt::socket_type(&socket)? == SocketType::STREAM;
        Ok(Self {
            ring: open(socket.as_fd())?,
            is_stream,
            policy: if is_stream { policy } else { policy.of_datagrams() },
            socket,
            notifier: Notifier::new(flush),
            registry: Registry::new(),
            sends: Slab::new(),
            queue: Vec::with_capacity(SUBMISSIONS as usize),
            spare: Vec::new(),
        })
    }

    /// Queues a send. When the queue is full, it is submitted first.
    pub fn send(&mut self, mut list: List) -> io::Result<()> {
        let (transfer, bytes) = self.registry.transfer(&mut self.policy, &self.ring.submitter(), &list);
        let first = list.split_to(bytes);
        self.queue(first, transfer)?;
        if list.is_empty() { Ok(()) } else { self.queue(list, Transfer::Copy) }
    }

    fn queue(&mut self, list: List, transfer: Transfer) -> io::Result<()> {
        if self.queue.len() == SUBMISSIONS as usize {
            self.submit()?;
        }
        let slot = (transfer != Transfer::Copy).then(|| self.notifier.attach());
        let segments = list.segments().len();
        let header = (segments > 1).then(|| self.spare.pop().unwrap_or_else(Message::new));
        let entry = self.sends.vacant_entry();
        let key = entry.key() as u64;
        let out = entry.insert(Out { list, header, slot, failed: false });
        let flags = libc::MSG_NOSIGNAL | if self.is_stream { libc::MSG_WAITALL } else { 0 };
        let request = match &mut out.header {
            None => send(SOCKET, &out.list, transfer, flags),
            Some(header) => {
                let header = header.set(vectors(&out.list, usize::MAX));
                send_message(SOCKET, header, transfer, flags)
            }
        };
        self.queue.push(request.flags(Flags::FIXED_FILE).user_data(key));
        Ok(())
    }

    /// Submits what is queued and waits until the kernel has accepted it; how many bytes it took. The first failure of
    /// a send is that of all.
    pub fn submit(&mut self) -> io::Result<u64> {
        let (mut bytes, mut result) = (0, Ok(()));
        let mut unanswered = self.enqueue()?;
        while unanswered > 0 || self.sends.len() > IN_USE {
            // A datagram is accepted or refused at once: one call is enough for all.
            let want = if self.is_stream { 1 } else { unanswered.max(1) };
            retried(self.ring.submit_and_wait(want))?;
            unanswered -= self.collect(|answer| match answer {
                Ok(sent) => bytes += sent,
                Err(error) => result = std::mem::replace(&mut result, Ok(())).and(Err(error)),
            });
        }
        result.map(|()| bytes)
    }

    fn enqueue(&mut self) -> io::Result<usize> {
        let count = self.queue.len();
        let mut submissions = self.ring.submission();
        for (i, mut request) in self.queue.drain(..).enumerate() {
            if self.is_stream && i + 1 < count {
                request = request.flags(Flags::IO_LINK);
            }
            // SAFETY: list and header stay in `self.sends` until the kernel has said that it no longer uses them, and
            // the socket is open as long as the ring.
            let pushed = unsafe { submissions.push(&request) };
            pushed
                .map_err(|_| io::Error::other("the submission queue is full though all of it was taken"))?;
        }
        Ok(count)
    }

    /// Takes the completions that are there; how many sends have been answered.
    fn collect(&mut self, mut answer: impl FnMut(io::Result<u64>)) -> usize {
        let mut answered = 0;
        let Self { ring, sends, policy, notifier, spare, .. } = self;
        for entry in ring.completion() {
            let key = entry.user_data() as usize;
            let Some(out) = sends.get_mut(key) else { continue };
            let completion = Completion::of(&entry);
            if !matches!(completion, Completion::Freed { .. }) {
                answered += 1;
                out.failed = entry.result() < 0;
                answer(sent(&entry));
            }
            let copied = match completion {
                Completion::Accepted => continue,
                Completion::Ended => None,
                Completion::Freed { copied } => Some(copied),
            };
            let Out { list, header, slot, failed } = sends.remove(key);
            drop(list);
            spare.extend(header);
            let Some(slot) = slot else { continue };
            match copied {
                Some(copied) if !failed => policy.report(copied),
                _ => policy.withdraw(),
            }
            notifier.release(slot, copied.unwrap_or(false));
        }
        answered
    }

    /// Waits until the kernel says something, or nothing is in use, or the time is over; takes what has come.
    pub fn wait(&mut self, patience: Duration) -> io::Result<()> {
        if self.sends.len() > self.queue.len() {
            let timeout = Timespec::from(patience);
            retried(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)))?;
            self.collect(drop);
        }
        Ok(())
    }

    /// Submits what is queued, and waits until the kernel has let go of all memory; `false`: it has not in that time.
    pub fn settle(&mut self, patience: Duration) -> io::Result<bool> {
        self.submit()?;
        let end = Instant::now() + patience;
        while !self.sends.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(left)?;
        }
        Ok(true)
    }

    /// Closes the open slot; see [`Notifier::flush`].
    pub fn flush(&mut self) -> Option<SlotId> {
        self.notifier.flush()
    }

    /// The next slot whose memory is free.
    pub fn next_freed(&mut self) -> Option<Freed> {
        self.notifier.next_freed()
    }

    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What was decided so far.
    pub fn counters(&self) -> Counters {
        self.policy.counters()
    }
}

fn sent(entry: &cqueue::Entry) -> io::Result<u64> {
    u64::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()))
}

/// Calls that did nothing wrong and are to be made again.
pub(super) fn retried(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ETIME) => Ok(()),
            _ => Err(error),
        },
    }
}

impl Drop for RingSender {
    fn drop(&mut self) {
        // What was never submitted is in nobody's hands.
        for request in self.queue.drain(..) {
            self.sends.remove(request.get_user_data() as usize);
        }
        if self.sends.is_empty() {
            return;
        }
        super::error_queue::abort(self.socket.as_fd());
        if !matches!(self.settle(DROP_PATIENCE), Ok(true)) {
            tracing::error!("io_uring did not give the memory of sends back; it is leaked");
            std::mem::forget(std::mem::take(&mut self.sends));
        }
    }
}
