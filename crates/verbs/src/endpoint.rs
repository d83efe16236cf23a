//! One end of a connection.

use crate::config::{Config, PRIVATE_DATA_MAX};
use crate::device::{self, Limits};
use crate::ffi::*;
use crate::memory::Memories;
use crate::objects::{CompletionQueue, Domain, Event, Events, Id, Reads, Region, WorkQueues};
use crate::work::{Line, Queue, Work, WorkKind};
use onego_buf::SegmentMut;
use onego_rdma::{
    CompletedWork, Completion, Endpoint, EndpointError, EndpointEvent, Key, Memory, PostError,
    QueuePair as _, Status,
};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

const BATCH: usize = 16;

/// Names of the watched descriptors in epoll's event data.
const CONNECTION: u64 = 0;
const COMPLETION: u64 = 1;
const DEVICE: u64 = 2;
const NAMES: usize = 3;

#[derive(Debug)]
enum Phase {
    Resolving(Vec<u8>),
    Connecting,
    /// A client's request, with its numbers of reads, waits for this side's user.
    Asked(Reads),
    /// The client was accepted. Its data may arrive before the event that the connection is established.
    Accepted,
    Ready,
    Over,
}

#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) work: WorkQueues,
    completions: Arc<CompletionQueue>,
    pub(crate) memories: Memories,
    pub(crate) domain: Arc<Domain>,
    pub(crate) limits: Limits,
}

impl Queues {
    fn new(id: &Arc<Id>, config: &Config) -> io::Result<Self> {
        let limits = Limits::of(id, config.send_queue, config.receive_queue)?;
        let domain = Domain::new(id)?;
        // Never overruns: it has room for the completions of all work.
        let completions = CompletionQueue::new(id, limits.room.sends + limits.room.receives)?;
        let work = WorkQueues::new(&domain, &completions, limits.room)?;
        let memories = Memories::new(Arc::clone(&domain), limits.is_iwarp);
        Ok(Self { work, completions, memories, domain, limits })
    }
}

#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) region: Region,
    pub(crate) memory: Memory,
}

/// One end of a connection over a device of the system.
#[derive(Debug)]
pub(crate) struct Connection {
    config: Config,
    phase: Phase,
    epoll: OwnedFd,
    id: Arc<Id>,
    /// `None` before the device is known, and after the end of the connection.
    pub(crate) queues: Option<Queues>,
    /// The device will report the next completion.
    armed: bool,
    pub(crate) sends: Queue,
    pub(crate) reads: Queue,
    pub(crate) receives: Queue,
    /// Receives posted before the device was known.
    pub(crate) early: VecDeque<(u64, SegmentMut)>,
    pub(crate) regions: HashMap<Key, Registered>,
    completions: VecDeque<Completion>,
    events: VecDeque<EndpointEvent>,
    /// Posted or completed work that is not polled.
    pub(crate) unpolled_sends: usize,
    pub(crate) unpolled_receives: usize,
}

impl Connection {
    /// Creates a client's end and starts to resolve the server's address.
    pub(crate) fn connect(
        events: &Arc<Events>,
        config: Config,
        server: SocketAddr,
        private_data: &[u8],
    ) -> io::Result<Self> {
        let id = Id::new(events)?;
        id.resolve_address(server)?;
        Self::new(id, config, Phase::Resolving(private_data.to_vec()))
    }

    pub(crate) fn serve(id: Arc<Id>, config: Config, event: &Event) -> io::Result<Self> {
        let queues = Queues::new(&id, &config)?;
        let reads = Reads { answered: event.responder_resources, asked: event.initiator_depth };
        let mut this = Self::new(id, config, Phase::Asked(reads))?;
        this.set_up(queues)?;
        Ok(this)
    }

    fn new(id: Arc<Id>, config: Config, phase: Phase) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, CONNECTION, id.events().descriptor())?;
        Ok(Self {
            config,
            phase,
            epoll,
            id,
            queues: None,
            armed: false,
            sends: Queue::default(),
            reads: Queue::default(),
            receives: Queue::default(),
            early: VecDeque::new(),
            regions: HashMap::new(),
            completions: VecDeque::new(),
            events: VecDeque::new(),
            unpolled_sends: 0,
            unpolled_receives: 0,
        })
    }

    fn set_up(&mut self, queues: Queues) -> io::Result<()> {
        watch(&self.epoll, COMPLETION, queues.completions.descriptor())?;
        watch(&self.epoll, DEVICE, device::descriptor(&self.id)?)?;
        self.queues = Some(queues);
        while let Some((id, buffer)) = self.early.pop_front() {
            if let Err((error, buffer)) = self.give_receive(id, buffer) {
                self.early.push_front((id, buffer));
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn line(&mut self, line: Line) -> &mut Queue {
        match line {
            Line::Sends => &mut self.sends,
            Line::Reads => &mut self.reads,
            Line::Receives => &mut self.receives,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Returns the connection's resources on its device. Fails if it cannot take work.
    pub(crate) fn established(&mut self) -> Result<&mut Queues, PostError> {
        match (&self.phase, &mut self.queues) {
            (Phase::Accepted | Phase::Ready, Some(queues)) => Ok(queues),
            (Phase::Over, _) => Err(PostError::Over),
            _ => Err(PostError::NotEstablished),
        }
    }

    /// Returns the limit on receives, including unpolled ones.
    pub(crate) fn receive_depth(&self) -> usize {
        let depth =
            self.queues.as_ref().map_or(self.config.receive_queue, |queues| queues.limits.room.receives);
        depth as usize
    }

    fn connection_events(&mut self) {
        while !self.is_over() {
            let event = match self.id.events().next() {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(error) => return self.fail(EndpointError::Device(error.to_string())),
            };
            if let Err(error) = self.connection_event(event) {
                self.fail(error);
            }
        }
    }

    fn connection_event(&mut self, event: Event) -> Result<(), EndpointError> {
        let refused = |error: io::Error| EndpointError::Device(error.to_string());
        match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => self.id.resolve_route().map_err(refused),
            RDMA_CM_EVENT_ROUTE_RESOLVED => self.ask().map_err(refused),
            RDMA_CM_EVENT_ESTABLISHED => {
                self.phase = Phase::Ready;
                self.events.push_back(EndpointEvent::Established(event.private_data));
                Ok(())
            }
            RDMA_CM_EVENT_REJECTED => Err(EndpointError::Rejected(event.private_data)),
            RDMA_CM_EVENT_ADDR_ERROR
            | RDMA_CM_EVENT_ROUTE_ERROR
            | RDMA_CM_EVENT_CONNECT_ERROR
            | RDMA_CM_EVENT_UNREACHABLE => {
                let what = self.id.rdma_core().connection_event(event.kind);
                let why = io::Error::from_raw_os_error(event.status.wrapping_neg());
                Err(EndpointError::Unreachable(format!("{what}: {why}")))
            }
            RDMA_CM_EVENT_DISCONNECTED => Err(EndpointError::Disconnected),
            RDMA_CM_EVENT_DEVICE_REMOVAL => {
                Err(EndpointError::Device(self.id.rdma_core().connection_event(event.kind)))
            }
            // Address changes, and events after the end.
            _ => Ok(()),
        }
    }

    /// Creates the queues once the route is known, and requests the connection.
    fn ask(&mut self) -> io::Result<()> {
        let Phase::Resolving(private_data) = &mut self.phase else { return Ok(()) };
        let private_data = std::mem::take(private_data);
        let queues = Queues::new(&self.id, &self.config)?;
        let reads = queues.limits.reads;
        self.set_up(queues)?;
        self.phase = Phase::Connecting;
        self.id.connect(&private_data, reads)
    }

    /// Processes a notification of completions, which the device sends once per request.
    fn completion_events(&mut self) {
        let Some(queues) = &self.queues else { return };
        match queues.completions.was_told() {
            Ok(told) => self.armed &= !told,
            Err(error) => self.fail(EndpointError::Device(error.to_string())),
        }
    }

    fn trouble(&mut self) {
        let Some(queues) = &self.queues else { return };
        if let Some(what) = device::trouble(&self.id, &queues.work) {
            self.fail(EndpointError::Device(what));
        }
    }

    /// Takes completions from the device until there is one, or until the device will report the next.
    fn harvest(&mut self) {
        let mut taken = [EMPTY; BATCH];
        while self.completions.is_empty()
            && let Some(queues) = &self.queues
        {
            let count = match queues.completions.poll(&mut taken) {
                Ok(0) if self.armed => return,
                // Completions in between are not reported, so poll once more.
                Ok(0) => queues.completions.arm().map(|()| {
                    self.armed = true;
                    0
                }),
                result => result,
            };
            let result = match count {
                Ok(count) => taken[..count].iter().try_for_each(|entry| self.completed(entry)),
                Err(error) => Err(EndpointError::Device(error.to_string())),
            };
            if let Err(error) = result {
                self.fail(error);
            }
        }
    }

    fn completed(&mut self, entry: &ibv_wc) -> Result<(), EndpointError> {
        let (line, number) = Line::of(entry.wr_id);
        let Some(work) = self.line(line).complete(number) else {
            return Err(EndpointError::Device("it completed work out of order".into()));
        };
        let what = work.kind.name();
        if entry.status != IBV_WC_SUCCESS {
            self.completions.push_back(work.end(Status::Flushed, 0));
            return Err(match entry.status {
                IBV_WC_WR_FLUSH_ERR => EndpointError::Disconnected,
                status => EndpointError::Work { what, why: self.id.rdma_core().status(status) },
            });
        }
        let mut completion = work.end(Status::Success, entry.byte_len as usize);
        if let CompletedWork::Received { invalidated, .. } = &mut completion.done
            && entry.wc_flags & IBV_WC_WITH_INV as u32 != 0
        {
            let key = Key(entry.invalidated_rkey);
            *invalidated = self.take_back(key).ok().map(|memory| (key, memory));
        }
        self.completions.push_back(completion);
        Ok(())
    }

    pub(crate) fn take_back(&mut self, key: Key) -> Result<Memory, PostError> {
        let Registered { region, memory } = self.regions.remove(&key).ok_or(PostError::UnknownKey(key))?;
        match region.release() {
            Ok(()) => Ok(memory),
            Err((error, region)) => {
                // The peer may write there as long as the connection exists.
                self.regions.insert(key, Registered { region, memory });
                self.fail(EndpointError::Device(error.to_string()));
                Err(PostError::Over)
            }
        }
    }

    pub(crate) fn fail(&mut self, mut error: EndpointError) {
        if self.is_over() {
            return;
        }
        // Flushed work has a cause, which the device or the system may have reported.
        if error == EndpointError::Disconnected
            && let Some(queues) = &self.queues
            && let Some(what) = device::trouble(&self.id, &queues.work)
        {
            error = EndpointError::Device(what);
        }
        self.end();
        self.events.push_back(EndpointEvent::Fault(error));
    }

    pub(crate) fn end(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        if matches!(phase, Phase::Connecting | Phase::Accepted | Phase::Ready) {
            // Fails if the peer ended it first.
            let _ = self.id.disconnect();
        }
        if let Some(Queues { work, completions, .. }) = self.queues.take() {
            self.complete_rest(&completions);
            let name = work.name();
            // From here on the device accesses no memory.
            drop(work);
            device::forget(name);
        }
        for line in [Line::Sends, Line::Reads, Line::Receives] {
            let works = self.line(line).take();
            self.completions.extend(works.into_iter().map(|work| work.end(Status::Flushed, 0)));
        }
        for (id, buffer) in self.early.drain(..) {
            let done = CompletedWork::Received { buffer, len: 0, solicited: false, invalidated: None };
            self.completions.push_back(Completion { id, status: Status::Flushed, done });
        }
        for (key, Registered { region, memory }) in self.regions.drain() {
            drop(region);
            let done = CompletedWork::Released(key, memory);
            self.completions.push_back(Completion { id: key.0.into(), status: Status::Flushed, done });
        }
    }

    fn complete_rest(&mut self, queue: &CompletionQueue) {
        let mut taken = [EMPTY; BATCH];
        while let Ok(count @ 1..) = queue.poll(&mut taken) {
            for entry in &taken[..count] {
                // Failed work comes back flushed, like the rest.
                let _ = self.completed(entry);
            }
        }
    }

    pub(crate) fn next_completion(&mut self) -> Option<Completion> {
        self.harvest();
        let completion = self.completions.pop_front()?;
        match completion.done {
            CompletedWork::Sent | CompletedWork::Written | CompletedWork::Read(_) => self.unpolled_sends -= 1,
            CompletedWork::Received { .. } => self.unpolled_receives -= 1,
            CompletedWork::Released(..) => {}
        }
        Some(completion)
    }

    pub(crate) fn give_receive(
        &mut self,
        id: u64,
        mut buffer: SegmentMut,
    ) -> Result<(), (io::Error, SegmentMut)> {
        let Some(queues) = &mut self.queues else { return Err((io::ErrorKind::NotConnected.into(), buffer)) };
        let (mut piece, regions) = match queues.memories.buffer(&mut buffer) {
            Ok(known) => known,
            Err(error) => return Err((error, buffer)),
        };
        let mut work = ibv_recv_wr {
            wr_id: Line::Receives.name(self.receives.next()),
            next: std::ptr::null_mut(),
            sg_list: &mut piece,
            num_sge: 1,
        };
        // SAFETY: the buffer and its registration are kept in `self.receives`, and not accessed, until the work is
        // complete or the queues are gone.
        match unsafe { queues.work.receive(&mut work) } {
            Ok(()) => {
                self.receives.push(Work { id, kind: WorkKind::Receive(buffer), regions });
                Ok(())
            }
            Err(error) => Err((error, buffer)),
        }
    }
}

fn watch(epoll: &OwnedFd, name: u64, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    Ok(epoll::add(epoll, descriptor, EventData::new_u64(name), EventFlags::IN)?)
}

const EMPTY: ibv_wc = ibv_wc {
    wr_id: 0,
    status: 0,
    opcode: 0,
    vendor_err: 0,
    byte_len: 0,
    invalidated_rkey: 0,
    qp_num: 0,
    src_qp: 0,
    wc_flags: 0,
    pkey_index: 0,
    slid: 0,
    sl: 0,
    dlid_path_bits: 0,
};

pub(crate) fn short(private_data: &[u8]) -> Result<(), PostError> {
    PostError::unless_short("private data", private_data.len(), PRIVATE_DATA_MAX)
}

/// Converts a system error of a verb.
pub(crate) fn refused(what: &'static str, error: &io::Error) -> PostError {
    PostError::Device { what, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

impl Endpoint for Connection {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn ready(&mut self) {
        let nothing = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let (mut found, at_once) = ([nothing; NAMES], Timespec { tv_sec: 0, tv_nsec: 0 });
        // A wait interrupted by a signal is repeated later.
        let count = epoll::wait(&self.epoll, &mut found[..], Some(&at_once)).unwrap_or(0);
        for event in &found[..count] {
            match event.data.u64() {
                COMPLETION => self.completion_events(),
                DEVICE => self.trouble(),
                _ => self.connection_events(),
            }
        }
    }

    fn event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    fn accept(&mut self, private_data: &[u8]) -> Result<(), PostError> {
        short(private_data)?;
        let (&Phase::Asked(asked), Some(queues)) = (&self.phase, &self.queues) else { return Ok(()) };
        let ours = queues.limits.reads;
        let reads = Reads { answered: asked.answered.min(ours.answered), asked: asked.asked.min(ours.asked) };
        self.id.accept(private_data, reads).map_err(|error| refused("let a client in", &error))?;
        self.phase = Phase::Accepted;
        Ok(())
    }

    fn reject(&mut self, private_data: &[u8]) -> Result<(), PostError> {
        short(private_data)?;
        if let Phase::Asked(_) = self.phase {
            self.id.reject(private_data).map_err(|error| refused("refuse a client", &error))?;
            self.end();
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.disconnect();
    }
}
