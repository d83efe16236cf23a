//! What the kernel gives of a queue.

use super::descriptor::DESCRIPTOR;
use onego_buf::SegmentMut;
use std::io;
use std::os::fd::OwnedFd;

/// A tag that comes back from the kernel.
#[derive(Debug)]
pub enum Fetched {
    /// A request for the device. What it writes is in the buffer.
    Request {
        /// The request's name, until it is committed.
        tag: u16,
        /// What it asks for, as the kernel has written it.
        descriptor: [u8; DESCRIPTOR],
        /// The buffer that the kernel had, as long as it was.
        buffer: SegmentMut,
    },
    /// The kernel has no more requests for that tag.
    Ended {
        /// Which.
        tag: u16,
        /// Why: `ENODEV` once the device is stopped, anything else if a command was refused.
        errno: i32,
    },
}

/// The kernel's side of one queue: it has a buffer for each tag that has no request, and gives it back with one.
///
/// Commands are queued by [`fetch`](Self::fetch) and [`commit`](Self::commit), and handed over by [`submit`](Self::submit), all of
/// them by one thread.
pub trait KernelQueue {
    /// Tags: 0 and those below this.
    fn depth(&self) -> u16;

    /// Bytes that each buffer has at least, and that no request has more of.
    fn max_io(&self) -> u32;

    /// A descriptor that is readable when [`next`](Self::next) gives something.
    fn watched(&self) -> io::Result<OwnedFd>;

    /// Gives the kernel the buffer for the first request of that tag.
    fn fetch(&mut self, tag: u16, buffer: SegmentMut);

    /// Completes the request of that tag, with bytes or a negated error number, and gives the kernel the buffer for the next one.
    /// Bytes that were read are the first of the buffer; the kernel takes them before it uses the buffer again.
    fn commit(&mut self, tag: u16, result: i32, buffer: SegmentMut);

    /// Hands over what is queued.
    fn submit(&mut self) -> io::Result<()>;

    /// The next tag that has come back.
    fn next(&mut self) -> Option<Fetched>;
}
