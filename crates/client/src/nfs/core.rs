//! What runs on the reactor: the client of the protocol, and what other threads ask of it.

use super::error::Error;
use crate::mailbox::Mailbox;
use crate::reactor;
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_nfs::client::{
    Call, Config, Error as CallError, FileClient, FileCompletion, Filled, Limits, Outcome, ServerId, Way,
};
use onego_nfs::v3::{Handle, Stability};
use onego_wire::{Layer, LocalPort, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What came of a request, with the buffer that it was given.
pub(crate) type RequestOutcome = (Result<Outcome, CallError>, Option<SegmentMut>);

/// A request to a file; offsets and lengths in bytes.
#[derive(Debug)]
pub enum FileRequest {
    /// Fills the buffer from `offset` on, as far as the file goes. It comes back in any case.
    Read {
        /// First byte.
        offset: u64,
        /// Where the bytes go.
        buffer: SegmentMut,
    },
    /// Gives up to `len` bytes, in memory that is taken as they come.
    ReadBytes {
        /// First byte.
        offset: u64,
        /// Bytes at the most.
        len: usize,
    },
    /// Writes the bytes.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: List,
        /// How durable they have to be.
        stable: Stability,
    },
    /// Completes when the writes submitted before are durable.
    Sync,
}

/// A tagged request that is done with.
#[derive(Debug)]
pub struct Completed {
    /// The caller's name for the request.
    pub tag: u64,
    /// What came of it: what was read, if it was a read.
    pub result: Result<Filled, CallError>,
    /// The buffer of a read...
    pub buffer: Option<SegmentMut>,
    /// ...or what was read without one.
    pub bytes: List,
}

impl Completed {
    fn new(tag: u64, result: Result<Outcome, CallError>, buffer: Option<SegmentMut>) -> Self {
        let (result, bytes) = match result {
            Ok(Outcome::Read(filled)) => (Ok(filled), List::new()),
            Ok(Outcome::Bytes(bytes, filled)) => (Ok(filled), bytes),
            Ok(Outcome::Written | Outcome::Synced | Outcome::Reply(_)) => {
                (Ok(Filled::default()), List::new())
            }
            Err(error) => (Err(error), List::new()),
        };
        Self { tag, result, buffer, bytes }
    }
}

/// Something for the reactor to do.
pub(super) enum NfsCommand {
    /// A call to another server than that of the files.
    CallTo {
        addr: SocketAddr,
        local: LocalPort,
        patience: Duration,
        call: Call,
        done: oneshot::Sender<RequestOutcome>,
    },
    /// Says where the server of the files is, and how it is reached.
    Connect { addr: SocketAddr, local: LocalPort, way: Way, connections: usize },
    /// Says what it takes.
    Limits(Limits),
    /// A call to it.
    Call { call: Call, patience: Option<Duration>, done: oneshot::Sender<RequestOutcome> },
    /// Something with a file.
    File { file: Handle, request: FileRequest, done: ReplyTo },
}

/// Where the result of a request goes.
#[derive(Debug)]
pub enum ReplyTo {
    /// To a future.
    Future(oneshot::Sender<RequestOutcome>),
    /// To a future, of the only call to a server, whose connection is closed then.
    Once(ServerId, oneshot::Sender<RequestOutcome>),
    /// To the completions of the reactor.
    Tag(u64),
}

/// The machine that a reactor drives.
pub struct Core {
    files: FileClient<ReplyTo>,
    mailbox: Arc<Mailbox<NfsCommand>>,
    completed: VecDeque<Completed>,
}

impl ReplyTo {
    /// Does nobody wait for it any more?
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Future(done) | Self::Once(_, done) => done.is_canceled(),
            Self::Tag(_) => false,
        }
    }
}

impl Core {
    pub(super) fn new(config: Config, patience: Option<Duration>, mailbox: Arc<Mailbox<NfsCommand>>) -> Self {
        let mut files = FileClient::new(config);
        files.set_patience(patience);
        Self { files, mailbox, completed: VecDeque::new() }
    }

    /// Starts something with a file.
    pub(super) fn start(&mut self, now: Time, file: Handle, request: FileRequest, done: ReplyTo) {
        match request {
            FileRequest::Read { offset, buffer } => self.files.read(now, file, offset, buffer, done),
            FileRequest::ReadBytes { offset, len } => self.files.read_bytes(now, file, offset, len, done),
            FileRequest::Write { offset, data, stable } => {
                self.files.write(now, file, offset, data, stable, done);
            }
            FileRequest::Sync => self.files.sync(now, file, done),
        }
    }

    fn execute(&mut self, now: Time, command: NfsCommand) {
        match command {
            // Nobody waits for it any more.
            NfsCommand::CallTo { done, .. } | NfsCommand::Call { done, .. } if done.is_canceled() => {}
            NfsCommand::File { done, .. } if done.is_abandoned() => {}
            NfsCommand::CallTo { addr, local, patience, mut call, done } => {
                let server = self.files.rpc().server(addr, local, &Way::Tcp, 1);
                call.soft = true;
                call.deadline = Some(now + patience);
                self.files.call_to(now, server, call, ReplyTo::Once(server, done));
            }
            NfsCommand::Connect { addr, local, way, connections } => {
                self.files.connect(addr, local, &way, connections);
            }
            NfsCommand::Limits(limits) => self.files.set_limits(limits),
            NfsCommand::Call { mut call, patience, done } => {
                call.deadline = patience.map(|patience| now + patience);
                self.files.call(now, call, ReplyTo::Future(done));
            }
            NfsCommand::File { file, request, done } => self.start(now, file, request, done),
        }
    }

    fn tell(&mut self, now: Time, completion: FileCompletion<ReplyTo>) {
        let FileCompletion { ticket, result, buffer } = completion;
        match ticket {
            // The caller may have stopped waiting.
            ReplyTo::Future(done) => drop(done.send((result, buffer))),
            ReplyTo::Once(server, done) => {
                self.files.rpc().close(now, server);
                drop(done.send((result, buffer)));
            }
            ReplyTo::Tag(tag) => self.completed.push_back(Completed::new(tag, result, buffer)),
        }
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
    type Below = FileClient<ReplyTo>;

    fn below(&self) -> &FileClient<ReplyTo> {
        &self.files
    }

    fn below_mut(&mut self) -> &mut FileClient<ReplyTo> {
        &mut self.files
    }

    /// Tells who waits for what has completed, and starts what there is room for: of what other threads left in the
    /// mailbox, too.
    fn settle(&mut self, now: Time) {
        if self.mailbox.take_sweep() {
            self.files.cancel_where(now, ReplyTo::is_abandoned);
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
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Requests;
    use super::*;
    use onego_buf::Pool;
    use onego_nfs::rpc::Credential;
    use onego_wire::{Action, ConnId, Disconnect, Machine as _};
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    /// A client that knows its server, and the way of requests to it.
    fn client() -> (Core, Requests) {
        let (mailbox, pool) = (Arc::new(Mailbox::new()), Pool::new(1 << 20));
        let config = Config::new(Credential::None, 1, pool.clone());
        let mut core = Core::new(config, None, Arc::clone(&mailbox));
        core.files.connect("10.0.0.1:2049".parse().unwrap(), LocalPort::Any, &Way::Tcp, 1);
        (core, Requests::new(mailbox, pool))
    }

    fn begin(future: Pin<&mut impl Future>) {
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    fn read(requests: &Requests) -> impl Future {
        let request = FileRequest::Read { offset: 0, buffer: SegmentMut::zeroed(4096) };
        requests.file(Handle::new(b"file").unwrap(), request)
    }

    fn connect(core: &mut Core) -> ConnId {
        let Some(Action::Connect { conn, .. }) = core.next_action(Time::default()) else {
            panic!("a call needs a connection");
        };
        conn
    }

    #[test]
    fn a_read_whose_future_is_dropped_before_it_is_sent_is_never_sent() {
        let ((mut core, requests), now) = (client(), Time::default());
        // In the mailbox, and with the client.
        for is_taken in [false, true] {
            let mut reading = Box::pin(read(&requests));
            begin(reading.as_mut());
            let conn = is_taken.then(|| connect(&mut core));
            drop(reading);
            assert!(core.next_action(now).is_none());
            assert!(core.files.is_idle(), "nothing is kept of what nobody waits for");
            if let Some(conn) = conn {
                core.connected(now, conn, "10.0.0.2:999".parse().unwrap());
                let sends = |action| matches!(action, Action::Transmit { .. });
                assert!(!std::iter::from_fn(|| core.next_action(now)).any(sends), "there is nothing to send");
            }
        }
    }

    #[test]
    fn a_read_whose_future_is_dropped_in_flight_ends_with_its_connection() {
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
        assert_eq!(sent.len(), both / 2, "one call is sent again");
    }
}
