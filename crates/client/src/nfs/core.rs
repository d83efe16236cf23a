//! What runs on the reactor: the client of the protocol, and what other threads ask of it.

use crate::mailbox::Mailbox;
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_nfs::client::{
    Call, Config, Error as CallError, FileClient, FileCompletion, Limits, Outcome, ServerId, Way,
};
use onego_nfs::v3::{Handle, Stability};
use onego_wire::{Layer, LocalPort, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What came of a request, with the buffer that it was given.
pub(super) type RequestOutcome = (Result<Outcome, CallError>, Option<SegmentMut>);

/// A read, a write, or a sync.
#[derive(Debug)]
pub(super) enum FileOp {
    Read { offset: u64, buffer: SegmentMut },
    ReadBytes { offset: u64, len: usize },
    Write { offset: u64, data: List, stable: Stability },
    Sync,
}

/// Something for the reactor to do.
pub(super) enum Command {
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
    File { file: Handle, op: FileOp, done: Done },
}

/// Whom to tell that a request is done with.
#[derive(Debug)]
pub(super) enum Done {
    Future(oneshot::Sender<RequestOutcome>),
    /// The same, of a call to a server that is not needed any more.
    Once(ServerId, oneshot::Sender<RequestOutcome>),
    /// Whoever takes completions from the reactor.
    Tag(u64),
}

/// The machine that a reactor drives.
pub(super) struct Core {
    files: FileClient<Done>,
    mailbox: Arc<Mailbox<Command>>,
    completed: VecDeque<(u64, RequestOutcome)>,
}

impl Core {
    pub(super) fn new(config: Config, patience: Option<Duration>, mailbox: Arc<Mailbox<Command>>) -> Self {
        let mut files = FileClient::new(config);
        files.set_patience(patience);
        Self { files, mailbox, completed: VecDeque::new() }
    }

    /// May another tagged request be started without making anything grow?
    pub(super) fn has_room(&self) -> bool {
        self.files.has_room()
    }

    /// The next tagged request that is done with.
    pub(super) fn next_completed(&mut self) -> Option<(u64, RequestOutcome)> {
        self.completed.pop_front()
    }

    /// Are all handles gone, and is nothing in flight?
    pub(super) fn is_over(&self) -> bool {
        self.mailbox.is_closed() && self.files.is_idle()
    }

    /// Refuses all further commands.
    pub(super) fn close(&self) {
        self.mailbox.close();
    }

    /// Starts something with a file.
    pub(super) fn start(&mut self, now: Time, file: Handle, op: FileOp, done: Done) {
        match op {
            FileOp::Read { offset, buffer } => self.files.read(now, file, offset, buffer, done),
            FileOp::ReadBytes { offset, len } => self.files.read_bytes(now, file, offset, len, done),
            FileOp::Write { offset, data, stable } => self.files.write(now, file, offset, data, stable, done),
            FileOp::Sync => self.files.sync(now, file, done),
        }
    }

    fn execute(&mut self, now: Time, command: Command) {
        match command {
            Command::CallTo { addr, local, patience, mut call, done } => {
                let server = self.files.rpc().server(addr, local, &Way::Tcp, 1);
                call.soft = true;
                call.deadline = Some(now + patience);
                self.files.call_to(now, server, call, Done::Once(server, done));
            }
            Command::Connect { addr, local, way, connections } => {
                self.files.connect(addr, local, &way, connections);
            }
            Command::Limits(limits) => self.files.set_limits(limits),
            Command::Call { mut call, patience, done } => {
                call.deadline = patience.map(|patience| now + patience);
                self.files.call(now, call, Done::Future(done));
            }
            Command::File { file, op, done } => self.start(now, file, op, done),
        }
    }

    fn tell(&mut self, now: Time, completion: FileCompletion<Done>) {
        let FileCompletion { ticket, result, buffer } = completion;
        let outcome = (result, buffer);
        match ticket {
            // Whoever asked may have stopped waiting.
            Done::Future(done) => drop(done.send(outcome)),
            Done::Once(server, done) => {
                self.files.rpc().close(now, server);
                drop(done.send(outcome));
            }
            Done::Tag(tag) => self.completed.push_back((tag, outcome)),
        }
    }
}

impl Layer for Core {
    type Below = FileClient<Done>;

    fn below(&self) -> &FileClient<Done> {
        &self.files
    }

    fn below_mut(&mut self) -> &mut FileClient<Done> {
        &mut self.files
    }

    /// Tells who waits for what has completed, and starts what there is room for: of what other threads left in the
    /// mailbox, too.
    fn settle(&mut self, now: Time) {
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
