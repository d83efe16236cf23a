//! The machine that the reactor drives: the protocol client, and commands from other threads.

use super::error::Error;
use crate::mailbox::Mailbox;
use crate::reactor;
use crate::waiting::{StallMonitor, WaitReport};
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_nfs::client::{
    Awaited, Call, CallFigures, Config, Error as CallError, FileClient, FileCompletion, Filled, Limits,
    Outcome, Reply, ServerId, WaitCause, Waiting, Way,
};
use onego_nfs::v3::{Handle, Stability};
use onego_wire::{Layer, LocalPort, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(super) type ReadOutcome = (Result<Filled, CallError>, SegmentMut);

pub(super) type BytesOutcome = Result<(List, Filled), CallError>;

pub(super) type DoneOutcome = Result<(), CallError>;

pub(super) type CallOutcome = Result<Reply, CallError>;

/// A request to a file; offsets and lengths in bytes.
#[derive(Debug)]
pub enum FileRequest {
    /// Fills the buffer from `offset` on, as far as the file extends. The buffer always comes back.
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// Destination.
        buffer: SegmentMut,
    },
    /// Reads up to `len` bytes into memory allocated on arrival.
    ReadBytes {
        /// Offset of the first byte.
        offset: u64,
        /// Most bytes to read.
        len: usize,
    },
    /// Writes data.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// Data to write.
        data: List,
        /// Required durability.
        stable: Stability,
    },
    /// Completes when all writes submitted before are durable.
    Sync,
}

/// A completed tagged request.
#[derive(Debug)]
pub struct Completed {
    /// Tag chosen by the caller.
    pub tag: u64,
    /// Result of the request.
    pub outcome: FileOutcome,
}

/// Result of a file request, by the kind of the request.
#[derive(Debug)]
pub enum FileOutcome {
    /// Result of [`FileRequest::Read`].
    Read {
        /// Number of bytes read, from the start of the buffer.
        result: Result<Filled, CallError>,
        /// The request's buffer, also after an error.
        buffer: SegmentMut,
    },
    /// Result of [`FileRequest::ReadBytes`].
    Bytes(Result<(List, Filled), CallError>),
    /// Result of [`FileRequest::Write`] and [`FileRequest::Sync`].
    Done(Result<(), CallError>),
}

#[derive(Debug)]
pub(super) enum ReplyTo<T> {
    Future(oneshot::Sender<T>),
    Tag(u64),
}

impl<T> ReplyTo<T> {
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Future(done) if done.is_canceled())
    }
}

pub(super) enum FileCommand {
    Read { offset: u64, buffer: SegmentMut, done: ReplyTo<ReadOutcome> },
    Bytes { offset: u64, len: usize, done: ReplyTo<BytesOutcome> },
    Write { offset: u64, data: List, stable: Stability, done: ReplyTo<DoneOutcome> },
    Sync { done: ReplyTo<DoneOutcome> },
}

impl FileCommand {
    pub(super) fn tagged(request: FileRequest, tag: u64) -> Self {
        match request {
            FileRequest::Read { offset, buffer } => Self::Read { offset, buffer, done: ReplyTo::Tag(tag) },
            FileRequest::ReadBytes { offset, len } => Self::Bytes { offset, len, done: ReplyTo::Tag(tag) },
            FileRequest::Write { offset, data, stable } => {
                Self::Write { offset, data, stable, done: ReplyTo::Tag(tag) }
            }
            FileRequest::Sync => Self::Sync { done: ReplyTo::Tag(tag) },
        }
    }

    fn is_abandoned(&self) -> bool {
        match self {
            Self::Read { done, .. } => done.is_abandoned(),
            Self::Bytes { done, .. } => done.is_abandoned(),
            Self::Write { done, .. } | Self::Sync { done } => done.is_abandoned(),
        }
    }
}

pub(super) enum NfsCommand {
    Resolving(Option<String>),
    /// Calls a server other than the NFS server.
    CallTo {
        addr: SocketAddr,
        local: LocalPort,
        patience: Duration,
        call: Call,
        done: oneshot::Sender<CallOutcome>,
    },
    Connect {
        addr: SocketAddr,
        local: LocalPort,
        way: Way,
        connections: usize,
    },
    Limits(Limits),
    Call {
        call: Call,
        patience: Option<Duration>,
        done: oneshot::Sender<CallOutcome>,
    },
    File {
        file: Handle,
        command: FileCommand,
    },
}

/// Destination of a request's result, by the kind of the request.
#[derive(Debug)]
pub struct Ticket(Purpose);

#[derive(Debug)]
enum Purpose {
    Call(oneshot::Sender<CallOutcome>),
    /// A single call to a server, which closes the connection.
    Once(ServerId, oneshot::Sender<CallOutcome>),
    Read(ReplyTo<ReadOutcome>),
    Bytes(ReplyTo<BytesOutcome>),
    Done(ReplyTo<DoneOutcome>),
}

impl Ticket {
    fn is_abandoned(&self) -> bool {
        match &self.0 {
            Purpose::Call(done) | Purpose::Once(_, done) => done.is_canceled(),
            Purpose::Read(done) => done.is_abandoned(),
            Purpose::Bytes(done) => done.is_abandoned(),
            Purpose::Done(done) => done.is_abandoned(),
        }
    }
}

/// State machine driven by a reactor.
pub struct Core {
    files: FileClient<Ticket>,
    mailbox: Arc<Mailbox<NfsCommand>>,
    completed: VecDeque<Completed>,
    resolving: Option<(String, Time)>,
    stall_monitor: StallMonitor<Waiting>,
}

impl Core {
    pub(super) fn new(
        config: Config,
        patience: Option<Duration>,
        mailbox: Arc<Mailbox<NfsCommand>>,
        stall_monitor: StallMonitor<Waiting>,
    ) -> Self {
        let mut files = FileClient::new(config);
        files.set_patience(patience);
        Self { files, mailbox, completed: VecDeque::new(), resolving: None, stall_monitor }
    }

    pub(super) fn figures(&self) -> CallFigures {
        self.files.figures()
    }

    pub(crate) fn submit(&mut self, now: Time, file: Handle, request: FileRequest, tag: u64) {
        self.start(now, file, FileCommand::tagged(request, tag));
    }

    fn start(&mut self, now: Time, file: Handle, command: FileCommand) {
        match command {
            FileCommand::Read { offset, buffer, done } => {
                self.files.read(now, file, offset, buffer, Ticket(Purpose::Read(done)));
            }
            FileCommand::Bytes { offset, len, done } => {
                self.files.read_bytes(now, file, offset, len, Ticket(Purpose::Bytes(done)));
            }
            FileCommand::Write { offset, data, stable, done } => {
                self.files.write(now, file, offset, data, stable, Ticket(Purpose::Done(done)));
            }
            FileCommand::Sync { done } => self.files.sync(now, file, Ticket(Purpose::Done(done))),
        }
    }

    fn execute(&mut self, now: Time, command: NfsCommand) {
        match command {
            NfsCommand::Resolving(host) => self.resolving = host.map(|host| (host, now)),
            // The caller has stopped waiting.
            NfsCommand::CallTo { done, .. } | NfsCommand::Call { done, .. } if done.is_canceled() => {}
            NfsCommand::File { command, .. } if command.is_abandoned() => {}
            NfsCommand::CallTo { addr, local, patience, mut call, done } => {
                let server = self.files.rpc().server(addr, local, &Way::Tcp, 1);
                call.soft = true;
                call.deadline = Some(now + patience);
                self.files.call_to(now, server, call, Ticket(Purpose::Once(server, done)));
            }
            NfsCommand::Connect { addr, local, way, connections } => {
                self.files.connect(addr, local, &way, connections);
            }
            NfsCommand::Limits(limits) => self.files.set_limits(limits),
            NfsCommand::Call { mut call, patience, done } => {
                call.deadline = patience.map(|patience| now + patience);
                self.files.call(now, call, Ticket(Purpose::Call(done)));
            }
            NfsCommand::File { file, command } => self.start(now, file, command),
        }
    }

    /// Delivers a result. The caller may have stopped waiting.
    fn tell(&mut self, now: Time, completion: FileCompletion<Ticket>) {
        let FileCompletion { ticket: Ticket(purpose), result, buffer } = completion;
        match purpose {
            Purpose::Call(done) => drop(done.send(result.map(reply))),
            Purpose::Once(server, done) => {
                self.files.rpc().close(now, server);
                drop(done.send(result.map(reply)));
            }
            Purpose::Read(done) => {
                // An empty read may come back without its buffer.
                let read = (result.map(filled), buffer.unwrap_or_else(|| SegmentMut::zeroed(0)));
                self.hand_out(done, read, |(result, buffer)| FileOutcome::Read { result, buffer });
            }
            Purpose::Bytes(done) => self.hand_out(done, result.map(bytes), FileOutcome::Bytes),
            Purpose::Done(done) => self.hand_out(done, result.map(drop), FileOutcome::Done),
        }
    }

    fn hand_out<T>(&mut self, done: ReplyTo<T>, result: T, outcome: impl FnOnce(T) -> FileOutcome) {
        match done {
            ReplyTo::Future(done) => drop(done.send(result)),
            ReplyTo::Tag(tag) => self.completed.push_back(Completed { tag, outcome: outcome(result) }),
        }
    }
}

// The NFS client completes each request with the outcome of its kind.

fn reply(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Reply(reply) => reply,
        other => unreachable!("a call returned {other:?}"),
    }
}

fn filled(outcome: Outcome) -> Filled {
    match outcome {
        Outcome::Read(filled) => filled,
        other => unreachable!("a read into a buffer returned {other:?}"),
    }
}

fn bytes(outcome: Outcome) -> (List, Filled) {
    match outcome {
        Outcome::Bytes(bytes, filled) => (bytes, filled),
        other => unreachable!("a read without a buffer returned {other:?}"),
    }
}

impl WaitReport for Waiting {
    fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl reactor::Core for Core {
    type Completed = Completed;
    type Error = Error;

    fn has_room(&self) -> bool {
        self.files.has_room()
    }

    fn next_completed(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }

    fn is_over(&self) -> bool {
        self.mailbox.is_closed() && self.files.is_idle()
    }

    fn close(&self) {
        self.mailbox.close();
    }
}

impl Layer for Core {
    type Below = FileClient<Ticket>;

    fn below(&self) -> &FileClient<Ticket> {
        &self.files
    }

    fn below_mut(&mut self) -> &mut FileClient<Ticket> {
        &mut self.files
    }

    /// Notifies callers of completions, and starts as many queued requests as there is room for, including those in
    /// the mailbox.
    fn settle(&mut self, now: Time) {
        if self.mailbox.take_sweep() {
            self.files.cancel_where(now, Ticket::is_abandoned);
        }
        self.files.settle(now);
        while let Some(completion) = self.files.completion() {
            self.tell(now, completion);
        }
        while self.files.has_room()
            && let Some(command) = self.mailbox.take()
        {
            self.execute(now, command);
        }
        let is_busy = self.resolving.is_some() || !self.files.is_idle();
        self.stall_monitor.set_busy(now, is_busy);
    }

    fn due_at(&self) -> Option<Time> {
        self.stall_monitor.deadline()
    }

    fn due(&mut self, now: Time) {
        let (files, resolving) = (&self.files, &self.resolving);
        self.stall_monitor.check(now, || match resolving {
            Some((host, since)) => {
                let target = Awaited::Address(host.clone());
                Some(Waiting::new(target, now.since(*since), WaitCause::Unanswered))
            }
            None => files.waiting(now),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Requests;
    use super::*;
    use crate::waiting::Report;
    use onego_buf::Pool;
    use onego_nfs::rpc::Credential;
    use onego_wire::{Action, ConnId, Disconnect, Machine as _};
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    fn client() -> (Core, Requests) {
        let (mailbox, pool) = (Arc::new(Mailbox::new()), Pool::new(1 << 20));
        let config = Config::new(Credential::None, 1, pool.clone());
        let report = Report::default();
        let stall_monitor = StallMonitor::new(report.clone(), None);
        let mut core = Core::new(config, None, Arc::clone(&mailbox), stall_monitor);
        core.files.connect("10.0.0.1:2049".parse().unwrap(), LocalPort::Any, &Way::Tcp, 1);
        let figures = core.figures();
        (core, Requests::new(mailbox, pool, report, figures))
    }

    fn begin(future: Pin<&mut impl Future>) {
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    fn read(requests: &Requests) -> impl Future {
        let buffer = SegmentMut::zeroed(4096);
        requests.file(Handle::new(b"file").unwrap(), |done| FileCommand::Read { offset: 0, buffer, done })
    }

    fn connect(core: &mut Core) -> ConnId {
        let Some(Action::Connect { conn, .. }) = core.next_action(Time::default()) else {
            panic!("a call needs a connection");
        };
        conn
    }

    #[test]
    fn a_read_dropped_before_it_is_sent_is_never_sent() {
        let ((mut core, requests), now) = (client(), Time::default());
        // Once while in the mailbox, once while in the client.
        for is_taken in [false, true] {
            let mut reading = Box::pin(read(&requests));
            begin(reading.as_mut());
            let conn = is_taken.then(|| connect(&mut core));
            drop(reading);
            assert!(core.next_action(now).is_none());
            assert!(core.files.is_idle(), "no state remains of an abandoned request");
            if let Some(conn) = conn {
                core.connected(now, conn, "10.0.0.2:999".parse().unwrap());
                let sends = |action| matches!(action, Action::Transmit { .. });
                assert!(!std::iter::from_fn(|| core.next_action(now)).any(sends), "there is nothing to send");
            }
        }
    }

    #[test]
    fn a_read_dropped_in_flight_ends_with_its_connection() {
        let ((mut core, requests), now) = (client(), Time::default());
        let mut staying = pin!(read(&requests));
        let mut leaving = Box::pin(read(&requests));
        begin(staying.as_mut());
        begin(leaving.as_mut());
        let conn = connect(&mut core);
        core.connected(now, conn, "10.0.0.2:999".parse().unwrap());
        while core.next_action(now).is_some() {}
        let mut sent = List::new();
        core.transmit(now, conn, &mut sent, usize::MAX);
        let both = sent.len();
        drop(leaving);
        assert!(core.next_action(now).is_none());
        core.disconnected(now, conn, Disconnect::Closed);
        core.timeout(now + Duration::from_secs(5));
        let conn = connect(&mut core);
        core.connected(now, conn, "10.0.0.2:999".parse().unwrap());
        while core.next_action(now).is_some() {}
        let mut sent = List::new();
        core.transmit(now, conn, &mut sent, usize::MAX);
        assert_eq!(sent.len(), both / 2, "one call is resent");
    }
}
