use super::notifier::{Flush, Freed, Notifier, SlotId};
use super::policy::{Counters, Policy};
use super::registry::Registry;
use super::request::{Completion, Transfer, send, send_message};
use crate::message::{Message, vectors};
use crate::socket::{MAX_BYTES, MAX_SLICES};
use io_uring::squeue::Flags;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};
use onego_buf::List;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use slab::Slab;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const SUBMISSIONS: u32 = 64;

/// Completions that fit; a zero-copy send has two.
const COMPLETIONS: u32 = 4096;

/// Maximum number of sends whose memory the kernel uses; beyond that, submitting waits.
const IN_USE: usize = 1024;

// The completion queue never overflows: each send has at most two completions.
const _: () = assert!(2 * (IN_USE + 2 * SUBMISSIONS as usize) <= COMPLETIONS as usize);

const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// The socket, as the only file registered with its ring.
pub(super) const SOCKET: Fd = Fd(0);

/// Opens a ring for the sends of one socket, with the best features that the kernel has.
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

struct Out {
    list: List,
    header: Option<Box<Message>>,
    slot: Option<SlotId>,
    failed: bool,
}

/// Sends of one socket by io_uring, many per system call, without a copy if the policy decides so.
///
/// On a stream they are made in order, each after the previous one is complete. The sender belongs to the thread that
/// opens it.
pub struct RingSender {
    ring: IoUring,
    socket: OwnedFd,
    is_stream: bool,
    policy: Policy,
    notifier: Notifier,
    registry: Registry,
    sends: Slab<Out>,
    queue: Vec<squeue::Entry>,
    /// Sends that the kernel has, or gets with the next call, and has not completed.
    unanswered: usize,
    /// Bytes completed since the last query, and the first failure.
    answered: (u64, Option<io::Error>),
    #[expect(clippy::vec_box, reason = "a header must not move while the kernel may look at it")]
    spare: Vec<Box<Message>>,
}

impl RingSender {
    /// Creates the sender of a connected socket.
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
            unanswered: 0,
            answered: (0, None),
            spare: Vec::new(),
        })
    }

    /// Queues a send, first submitting the queue if it is full.
    ///
    /// On a stream, a list beyond the limits of one request is sent by several. A datagram with more pieces than a
    /// request takes is copied into one piece.
    pub fn send(&mut self, mut list: List) -> io::Result<()> {
        if !self.is_stream {
            if list.len() > MAX_BYTES {
                return Err(Errno::MSGSIZE.into());
            }
            if list.segments().len() > MAX_SLICES {
                list = list.to_segment().into();
            }
        }
        loop {
            let mut piece = next_request(&mut list);
            let (transfer, bytes) = self.registry.transfer(&mut self.policy, &self.ring.submitter(), &piece);
            let first = piece.split_to(bytes);
            self.queue(first, transfer)?;
            if !piece.is_empty() {
                self.queue(piece, Transfer::Copy)?;
            }
            if list.is_empty() {
                return Ok(());
            }
        }
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

    /// Submits queued sends and waits until the kernel has accepted them. Returns how many bytes it took since the last
    /// call. The first failure of a send is reported for all of them.
    pub fn submit(&mut self) -> io::Result<u64> {
        self.enqueue()?;
        while self.unanswered > 0 || self.sends.len() > IN_USE {
            // A datagram is accepted or refused immediately: one call is enough for all.
            let want = if self.is_stream { 1 } else { self.unanswered.max(1) };
            retried(self.ring.submit_and_wait(want))?;
            self.collect();
        }
        match std::mem::take(&mut self.answered) {
            (_, Some(error)) => Err(error),
            (bytes, None) => Ok(bytes),
        }
    }

    fn enqueue(&mut self) -> io::Result<()> {
        let count = self.queue.len();
        while self.room() < count {
            retried(self.ring.submit_and_wait(1))?;
            self.collect();
        }
        let mut submissions = self.ring.submission();
        for (i, mut request) in self.queue.drain(..).enumerate() {
            if self.is_stream && i + 1 < count {
                request = request.flags(Flags::IO_LINK);
            }
            // SAFETY: list and header stay in `self.sends` until the kernel has reported that it no longer uses them,
            // and the socket is open as long as the ring.
            let pushed = unsafe { submissions.push(&request) };
            pushed.expect("there is room for the requests of one send");
        }
        self.unanswered += count;
        Ok(())
    }

    fn room(&mut self) -> usize {
        let submissions = self.ring.submission();
        submissions.capacity() - submissions.len()
    }

    fn collect(&mut self) {
        let Self { ring, sends, policy, notifier, spare, unanswered, answered, .. } = self;
        for entry in ring.completion() {
            let key = entry.user_data() as usize;
            let Some(out) = sends.get_mut(key) else { continue };
            let completion = Completion::of(&entry);
            if !matches!(completion, Completion::Freed { .. }) {
                *unanswered -= 1;
                match u64::try_from(entry.result()) {
                    Ok(bytes) => answered.0 += bytes,
                    Err(_) => {
                        out.failed = true;
                        let error = || io::Error::from_raw_os_error(-entry.result());
                        answered.1.get_or_insert_with(error);
                    }
                }
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
    }

    /// Waits until a completion arrives, nothing is in use, or the time is over; processes the completions.
    pub fn wait(&mut self, patience: Duration) -> io::Result<()> {
        if self.sends.len() > self.queue.len() {
            let timeout = Timespec::from(patience);
            retried(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)))?;
            self.collect();
        }
        Ok(())
    }

    /// Submits queued sends and waits until the kernel has released all memory. Returns `false` if the time is over
    /// before that.
    pub fn settle(&mut self, patience: Duration) -> io::Result<bool> {
        self.submit()?;
        self.drain(patience)
    }

    /// As [`settle`](Self::settle), with an empty queue.
    fn drain(&mut self, patience: Duration) -> io::Result<bool> {
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

/// Cuts off what one request can carry, possibly everything.
fn next_request(list: &mut List) -> List {
    if list.segments().len() <= MAX_SLICES && list.len() <= MAX_BYTES {
        return std::mem::take(list);
    }
    let bytes: usize = list.segments().take(MAX_SLICES).map(|segment| segment.len()).sum();
    list.split_to(bytes.min(MAX_BYTES))
}

/// Ignores errors of calls that were harmless and are to be repeated.
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
        // The kernel never saw the requests that were not submitted.
        for request in self.queue.drain(..) {
            self.sends.remove(request.get_user_data() as usize);
        }
        if self.sends.is_empty() {
            return;
        }
        super::error_queue::abort(self.socket.as_fd());
        if !matches!(self.drain(DROP_PATIENCE), Ok(true)) {
            tracing::error!("io_uring did not release the memory of sends in time: leaking it");
            std::mem::forget(std::mem::take(&mut self.sends));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_buf::SegmentMut;

    #[test]
    fn a_list_is_cut_to_what_a_request_carries() {
        // 4 GiB and 5 bytes in one segment, of which nothing is touched; then more segments than a request names.
        let long = SegmentMut::zeroed((4 << 30) + 5).freeze();
        let block = SegmentMut::zeroed(3 * 4096).freeze();
        let mut list = List::from(long);
        (0..2 * MAX_SLICES).for_each(|i| list.push(block.slice(3 * i..3 * i + 1)));
        let (total, mut sum) = (list.len(), 0);
        while !list.is_empty() {
            let request = next_request(&mut list);
            assert!((1..=MAX_BYTES).contains(&request.len()), "{request:?}");
            assert!(request.segments().len() <= MAX_SLICES, "{request:?}");
            sum += request.len();
        }
        assert_eq!(sum, total);
    }
}
