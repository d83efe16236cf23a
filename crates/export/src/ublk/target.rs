//! The machine that serves a queue.

use super::descriptor::{DESCRIPTOR, Descriptor, KernelRequest};
use super::errno;
use super::kernel_queue::{Fetched, KernelQueue};
use crate::operations::{ClientRequest, Operations, RequestKind};
use onego_block::{Completion, Completions, Device, Flags, Op, Outcome, Plug, Request, Split};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_metrics::OperationsSnapshot;
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Memory of buffers that are given back and are kept for the next requests: those of a burst of writes.
const IDLE_LIMIT: usize = 32 << 20;

/// Serves one queue of a block device of the kernel, as a state machine: no thread and no clock. What enters the kernel is the
/// [`KernelQueue`]. Drive it as [`Machine`] says.
///
/// **Buffers.** The kernel has one for each tag that has no request. A buffer that comes back with a write goes to the device as it
/// is, and the tag gets another one when the write completes; it is mostly the same, because the device is done with it then. What
/// is read lands in the buffer that came with the request, from where the kernel takes it. A queue has as many buffers as tags,
/// and what its device keeps of writes.
pub struct Target<K> {
    serving: Option<Serving<K>>,
    /// From how long on a request is slow.
    slow: Option<Duration>,
    /// What the driver is to do: there is one descriptor to be watched.
    action: Option<Action>,
    failure: Option<io::Error>,
}

/// A queue, and the device that does what its requests ask for.
struct Serving<K> {
    kernel: K,
    device: Rc<dyn Device>,
    pool: Pool,
    plug: Plug,
    operations: Operations,
    completions: Completions,
    /// By tag: what is kept of a request until it completes.
    requests: Vec<Option<(Held, ClientRequest)>>,
    /// Tags that the kernel has no more requests for.
    ended: u16,
    /// Something is to be handed over to the kernel.
    queued: bool,
}

/// What is kept of a request that is at the device.
enum Held {
    /// The rest of the buffer of which the device has the first bytes.
    Read { rest: SegmentMut },
    /// The device has the bytes that are to be written.
    Write { length: u32 },
    /// A buffer that the request has no use for.
    Idle { buffer: SegmentMut },
}

impl<K: KernelQueue> Target<K> {
    /// A machine that serves nothing yet.
    pub fn new() -> Self {
        Self { serving: None, slow: None, action: None, failure: None }
    }

    /// Serves a queue by a device from now on.
    pub fn serve(&mut self, kernel: K, device: Rc<dyn Device>) -> io::Result<()> {
        let descriptor = kernel.watched()?;
        let tags = kernel.depth();
        // The kernel makes requests of a page, also where the device takes fewer bytes.
        let device = Rc::new(Split::new(device, kernel.max_io().into()));
        let mut serving = Serving {
            kernel,
            device,
            pool: Pool::new(IDLE_LIMIT),
            plug: Plug::default(),
            operations: Operations::new(self.slow),
            completions: Completions::default(),
            requests: (0..tags).map(|_| None).collect(),
            ended: 0,
            queued: true,
        };
        for tag in 0..tags {
            let buffer = serving.buffer();
            serving.kernel.fetch(tag, buffer);
        }
        self.serving = Some(serving);
        let conn = ConnTable::<()>::default().reserve();
        self.action = Some(Action::Watch { conn, descriptor });
        Ok(())
    }

    /// Tells of requests that take as long by an event of `tracing` with the target `onego::slow`. Before a queue is served.
    pub fn set_slow(&mut self, slow: Duration) {
        self.slow = Some(slow);
    }

    /// Requests of the queue.
    pub fn operations(&self) -> OperationsSnapshot {
        self.serving.as_ref().map(|serving| serving.operations.snapshot()).unwrap_or_default()
    }

    /// Why it cannot go on; told once.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Has the kernel no more requests: was the device stopped?
    pub fn is_over(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| usize::from(serving.ended) == serving.requests.len())
    }

    /// Requests that are at the device.
    pub fn in_flight(&self) -> usize {
        self.serving.as_ref().map_or(0, |serving| serving.requests.iter().flatten().count())
    }

    fn fail(&mut self, error: io::Error) {
        self.failure.get_or_insert(error);
    }
}

impl<K: KernelQueue> Default for Target<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: KernelQueue> Serving<K> {
    fn buffer(&self) -> SegmentMut {
        self.pool.get(self.kernel.max_io() as usize)
    }

    /// Takes the requests that have come.
    fn take_requests(&mut self, now: Time) -> io::Result<()> {
        let mut refused = Ok(());
        while let Some(fetched) = self.kernel.next() {
            match fetched {
                Fetched::Request { tag, descriptor, buffer } => self.start(now, tag, &descriptor, buffer),
                Fetched::Ended { tag, errno } => {
                    self.ended += 1;
                    if errno != errno::ENODEV {
                        let error = io::Error::from_raw_os_error(errno);
                        let text = format!("the kernel refuses to give requests of tag {tag}: {error}");
                        refused = refused.and(Err(io::Error::new(error.kind(), text)));
                    }
                }
            }
        }
        self.plug.release(now, &self.device);
        refused
    }

    /// Gives a request to the device.
    fn start(&mut self, now: Time, tag: u16, descriptor: &[u8; DESCRIPTOR], mut buffer: SegmentMut) {
        let work = Descriptor::decode(descriptor).work(&self.device.geometry(), self.kernel.max_io());
        let (offset, op, flags, held) = match work {
            Ok(KernelRequest::Read { offset, length }) => {
                let head = buffer.split_to(length as usize);
                (offset, Op::ReadInto { buffer: head }, Flags::default(), Held::Read { rest: buffer })
            }
            Ok(KernelRequest::Write { offset, length, flags }) => {
                let data = List::from(buffer.freeze().slice(..length as usize));
                (offset, Op::Write { data }, flags, Held::Write { length })
            }
            Ok(KernelRequest::Flush) => (0, Op::Flush, Flags::default(), Held::Idle { buffer }),
            Ok(KernelRequest::Discard { offset, length }) => {
                (offset, Op::Trim { length }, Flags::default(), Held::Idle { buffer })
            }
            Ok(KernelRequest::Zero { offset, length, flags }) => {
                (offset, Op::Zero { length }, flags, Held::Idle { buffer })
            }
            Err(refusal) => {
                tracing::warn!(tag, %refusal, "a request of the kernel fails");
                return self.commit(tag, -errno::EIO, buffer);
            }
        };
        let (kind, carries_data) = (RequestKind::from(&op), op.carries_data());
        let request = Request::new(self.completions.caller(u64::from(tag)), offset, op).with_flags(flags);
        let bytes = if carries_data { request.length() } else { 0 };
        self.requests[usize::from(tag)] = Some((held, ClientRequest { kind, offset, bytes, since: now }));
        self.operations.begin();
        self.plug.submit(now, &self.device, request);
    }

    /// Tells the kernel what the device has done.
    fn settle(&mut self, now: Time) {
        while let Some(Completion { tag, result }) = self.completions.take() {
            let taken = self.requests.get_mut(tag as usize).and_then(Option::take);
            let Some((held, asked)) = taken else { continue };
            self.operations.end(now, &asked, result.is_err());
            let (result, buffer) = match (held, result) {
                (Held::Read { rest }, Ok(Outcome::Filled(mut head))) => {
                    let length = head.len() as i32;
                    let joined = head.try_join(rest).is_ok();
                    if joined { (length, Some(head)) } else { (-errno::EIO, None) }
                }
                (Held::Write { length }, Ok(_)) => (length as i32, None),
                (Held::Idle { buffer }, Ok(_)) => (0, Some(buffer)),
                (Held::Read { .. }, Ok(_)) => (-errno::EIO, None),
                (held, Err(error)) => {
                    tracing::warn!(tag, %error, "a request of the kernel fails");
                    let buffer = if let Held::Idle { buffer } = held { Some(buffer) } else { None };
                    (-errno::of(&error), buffer)
                }
            };
            let buffer = buffer.unwrap_or_else(|| self.buffer());
            self.commit(tag as u16, result, buffer);
        }
    }

    fn commit(&mut self, tag: u16, result: i32, buffer: SegmentMut) {
        self.kernel.commit(tag, result, buffer);
        self.queued = true;
    }

    /// Hands over to the kernel what is queued.
    fn submit(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.queued) { self.kernel.submit() } else { Ok(()) }
    }
}

impl<K: KernelQueue> onego_block::Export for Target<K> {
    fn has_completions(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| !serving.completions.is_empty())
    }
}

impl<K: KernelQueue> Machine for Target<K> {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(action) = self.action.take() {
            return Some(action);
        }
        let serving = self.serving.as_mut()?;
        serving.settle(now);
        if let Err(error) = serving.submit() {
            self.fail(error);
        }
        None
    }

    fn ready(&mut self, now: Time, _: ConnId) {
        let Some(serving) = &mut self.serving else { return };
        if let Err(error) = serving.take_requests(now) {
            self.fail(error);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.serving.as_ref().filter(|serving| serving.device.keeps_time())?.device.due_at()
    }

    fn timeout(&mut self, now: Time) {
        if let Some(serving) = &self.serving {
            serving.device.due(now);
        }
    }

    fn disconnected(&mut self, _: Time, _: ConnId, cause: Disconnect) {
        self.fail(match cause {
            Disconnect::Failed(error) => error,
            Disconnect::Closed => io::ErrorKind::ConnectionAborted.into(),
        });
    }

    // There are no connections to others, and no bytes but those of the buffers.

    fn listening(&mut self, _: Time, _: ListenerId, _: io::Result<SocketAddr>) {}

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}

    fn landing(&mut self, _: ConnId) -> Landing {
        Landing::default()
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}

    fn received(&mut self, _: Time, _: ConnId, _: Segment) {}

    fn transmit(&mut self, _: Time, _: ConnId, _: &mut List, _: usize) {}
}
