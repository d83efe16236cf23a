//! The same sends in bare loops that keep no memory, slots or policy: a baseline for comparisons.
use super::error_queue;
use super::request::{Completion, Transfer, send};
use super::ring::{SOCKET, open, retried};
use crate::socket::MAX_BYTES;
use io_uring::squeue::Flags;
use io_uring::{IoUring, squeue};
use onego_buf::{List, Segment, SegmentMut};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Way of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With a copy.
    Copy,
    /// Without a copy, looking up the pages each time.
    ZeroCopy,
    /// Without a copy, from registered memory. Same as [`ZeroCopy`](Self::ZeroCopy) for `MSG_ZEROCOPY`, which has no
    /// registration.
    Registered,
}

/// Counters of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Sends.
    pub sends: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Zero-copy sends that the kernel has reported on.
    pub reported: u64,
    /// Sends of those that the kernel copied after all.
    pub copied: u64,
}

/// Maximum time that dropping a loop waits for the kernel to release the blocks.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

fn blocks(size: usize, count: usize) -> io::Result<Vec<List>> {
    if size > MAX_BYTES {
        let reason = format!("block size {size} exceeds the {MAX_BYTES} bytes of one send");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let step = size.next_multiple_of(4096);
    let whole: Segment = SegmentMut::zeroed(step * count).freeze();
    Ok((0..count).map(|i| whole.slice(i * step..i * step + size).into()).collect())
}

/// Loop over `send`, with or without `MSG_ZEROCOPY`.
pub struct Socket {
    socket: OwnedFd,
    zero_copy: bool,
    block: List,
    reap_every: u32,
    count: Count,
}

impl Socket {
    /// Creates a loop that sends blocks of `size` bytes on a blocking socket, and takes notifications after every
    /// `reap_every` of them.
    pub fn new(socket: OwnedFd, how: How, size: usize, reap_every: u32) -> io::Result<Self> {
        let zero_copy = how != How::Copy;
        if zero_copy {
            error_queue::enable(&socket)?;
        }
        let block = blocks(size, 1)?.remove(0);
        Ok(Self { socket, zero_copy, block, reap_every, count: Count::default() })
    }

    /// Sends `reap_every` blocks, then takes the notifications.
    pub fn turn(&mut self) -> io::Result<()> {
        for _ in 0..self.reap_every {
            let sent = loop {
                let result = match (self.zero_copy, self.block.segments().next()) {
                    (true, _) => error_queue::send(self.socket.as_fd(), &self.block, self.block.len()).1,
                    (false, Some(bytes)) => rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL),
                    (false, None) => Ok(0),
                };
                match result {
                    Err(Errno::NOBUFS) if self.zero_copy => self.wait()?,
                    Err(Errno::INTR) => {}
                    result => break result?,
                }
            };
            self.count.sends += 1;
            self.count.bytes += sent as u64;
        }
        self.reap()
    }

    fn reap(&mut self) -> io::Result<()> {
        while self.zero_copy {
            match error_queue::notification(self.socket.as_fd()) {
                Ok(Some(notification)) => {
                    let sends = u64::from(notification.high.wrapping_sub(notification.low)) + 1;
                    self.count.reported += sends;
                    self.count.copied += if notification.copied { sends } else { 0 };
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.socket, PollFlags::empty())], Some(&second))?;
        self.reap()
    }

    /// Waits for outstanding notifications.
    pub fn settle(&mut self, patience: Duration) -> io::Result<Count> {
        let end = Instant::now() + patience;
        while self.zero_copy && self.count.reported < self.count.sends && Instant::now() < end {
            self.wait()?;
        }
        Ok(self.count)
    }
}

impl Drop for Socket {
    /// The kernel may still read the block for the peer: it is freed only after the kernel has reported that it does
    /// not.
    fn drop(&mut self) {
        let free = |count: &Count| count.reported >= count.sends;
        if !self.zero_copy || self.reap().is_ok() && free(&self.count) {
            return;
        }
        error_queue::abort(self.socket.as_fd());
        if !self.settle(DROP_PATIENCE).is_ok_and(|count| free(&count)) {
            tracing::error!("the kernel did not release the memory of sends in time: leaking it");
            std::mem::forget(std::mem::take(&mut self.block));
        }
    }
}

/// Loop over io_uring.
pub struct Ring {
    ring: IoUring,
    socket: OwnedFd,
    is_stream: bool,
    how: How,
    requests: Vec<squeue::Entry>,
    blocks: Vec<List>,
    /// Requests whose memory the kernel uses, or will after the next call.
    in_use: usize,
    count: Count,
}

impl Ring {
    /// Creates a loop that sends blocks of `size` bytes, `batch` of them per submission.
    pub fn open(socket: OwnedFd, how: How, size: usize, batch: usize) -> io::Result<Self> {
        let ring = open(socket.as_fd())?;
        let is_stream = sockopt::socket_type(&socket)? == SocketType::STREAM;
        let blocks = blocks(size, batch)?;
        if how == How::Registered {
            let vector = |list: &List| list.segments().next().map(crate::message::vector);
            let vectors: Vec<_> = blocks.iter().filter_map(vector).collect();
            // SAFETY: the blocks live as long as the ring.
            unsafe { ring.submitter().register_buffers(&vectors)? };
        }
        let flags = libc::MSG_NOSIGNAL | if is_stream { libc::MSG_WAITALL } else { 0 };
        let request = |(i, block): (usize, &List)| {
            let transfer = match how {
                How::Copy => Transfer::Copy,
                How::ZeroCopy => Transfer::ZeroCopy,
                How::Registered => Transfer::Registered(i as u16),
            };
            let linked = if is_stream && i + 1 < batch { Flags::IO_LINK } else { Flags::empty() };
            send(SOCKET, block, transfer, flags).flags(Flags::FIXED_FILE | linked)
        };
        let requests = blocks.iter().enumerate().map(request).collect();
        Ok(Self { ring, socket, is_stream, how, requests, blocks, in_use: 0, count: Count::default() })
    }

    /// Submits one batch and waits until it is accepted.
    pub fn turn(&mut self) -> io::Result<()> {
        let mut submissions = self.ring.submission();
        // SAFETY: the blocks are kept until the kernel no longer uses them, and are never written.
        let pushed = unsafe { submissions.push_multiple(&self.requests) };
        drop(submissions);
        pushed.map_err(|_| io::Error::other("a batch is larger than the submission queue"))?;
        let mut unanswered = self.requests.len();
        self.in_use += unanswered;
        while unanswered > 0 {
            let want = if self.is_stream { 1 } else { unanswered };
            retried(self.ring.submit_and_wait(want))?;
            unanswered -= self.collect()?;
        }
        Ok(())
    }

    fn collect(&mut self) -> io::Result<usize> {
        let mut answered = 0;
        for entry in self.ring.completion() {
            let completion = Completion::of(&entry);
            self.in_use -= usize::from(completion != Completion::Accepted);
            if let Completion::Freed { copied } = completion {
                self.count.reported += 1;
                self.count.copied += u64::from(copied);
                continue;
            }
            let sent = u64::try_from(entry.result());
            self.count.bytes += sent.map_err(|_| io::Error::from_raw_os_error(-entry.result()))?;
            self.count.sends += 1;
            answered += 1;
        }
        Ok(answered)
    }

    /// Waits for outstanding notifications.
    pub fn settle(&mut self, patience: Duration) -> io::Result<Count> {
        let end = Instant::now() + patience;
        while self.how != How::Copy && self.count.reported < self.count.sends && Instant::now() < end {
            self.wait()?;
        }
        Ok(self.count)
    }

    /// Waits for a completion for at most 100 ms.
    fn wait(&mut self) -> io::Result<()> {
        let timeout = io_uring::types::Timespec::from(Duration::from_millis(100));
        let arguments = io_uring::types::SubmitArgs::new().timespec(&timeout);
        retried(self.ring.submitter().submit_with_args(1, &arguments))?;
        self.collect().map(drop)
    }
}

impl Drop for Ring {
    /// As for [`Socket`]. Sends that have not completed because of an error may read the blocks, too.
    fn drop(&mut self) {
        if self.in_use > 0 && self.collect().is_ok() && self.in_use == 0 {
            return;
        }
        if self.in_use > 0 {
            error_queue::abort(self.socket.as_fd());
        }
        let end = Instant::now() + DROP_PATIENCE;
        while self.in_use > 0 && Instant::now() < end {
            // A failed send has ended, too.
            let _ = self.wait();
        }
        if self.in_use > 0 {
            tracing::error!("io_uring did not release the memory of sends in time: leaking it");
            std::mem::forget(std::mem::take(&mut self.blocks));
        }
    }
}
