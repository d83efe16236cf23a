use crate::engine::{Engine, Event, Received, RecvBufs, Sent, Stats, Wait};
use crate::ring::{self, Mode, RingSize, Setup};
use crate::{Epoll, SocketId, Uepoll, Uring, Waker};
use onego_buf::List;
use onego_wire::Time;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

/// Which engine to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EngineKind {
    /// Readiness, by epoll.
    #[default]
    Epoll,
    /// Readiness, read from an io_uring in user memory.
    Uepoll,
    /// Completion, by io_uring.
    Uring,
}

impl EngineKind {
    /// All kinds.
    pub const ALL: [EngineKind; 3] = [EngineKind::Epoll, EngineKind::Uepoll, EngineKind::Uring];
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineKind::Epoll => "epoll",
            EngineKind::Uepoll => "uepoll",
            EngineKind::Uring => "uring",
        })
    }
}

/// No engine has that name.
#[derive(Debug, thiserror::Error)]
#[error("there is no engine \"{0}\"; the engines are epoll, uepoll and uring")]
pub struct UnknownEngine(String);

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == name)
            .ok_or_else(|| UnknownEngine(name.to_owned()))
    }
}

/// An engine chosen at run time.
pub enum AnyEngine {
    /// Readiness, by epoll.
    Epoll(Epoll),
    /// Readiness, read from an io_uring in user memory.
    Uepoll(Box<Uepoll>),
    /// Completion, by io_uring.
    Uring(Box<Uring>),
}

/// Opens an engine. Where the kernel lacks what it needs, it is epoll instead, and a warning says what is missing.
pub fn open(kind: EngineKind) -> io::Result<AnyEngine> {
    open_with(kind, &ring::setup)
}

fn open_with(kind: EngineKind, setup: Setup<'_>) -> io::Result<AnyEngine> {
    let size = RingSize::default();
    let ringed = match kind {
        EngineKind::Epoll => return Epoll::open().map(AnyEngine::Epoll),
        EngineKind::Uepoll => Uepoll::with(size, setup).map(|engine| AnyEngine::Uepoll(Box::new(engine))),
        EngineKind::Uring => {
            Uring::with(Mode::Deferred, size, setup).map(|engine| AnyEngine::Uring(Box::new(engine)))
        }
    };
    ringed.or_else(|error| {
        tracing::warn!("{error}: {} is used instead of {kind}", EngineKind::Epoll);
        Epoll::open().map(AnyEngine::Epoll)
    })
}

impl AnyEngine {
    /// Which engine this is.
    pub fn kind(&self) -> EngineKind {
        match self {
            AnyEngine::Epoll(_) => EngineKind::Epoll,
            AnyEngine::Uepoll(_) => EngineKind::Uepoll,
            AnyEngine::Uring(_) => EngineKind::Uring,
        }
    }
}

/// Hands a call on to the engine inside.
macro_rules! each {
    ($any:expr, $engine:ident => $call:expr) => {
        match $any {
            AnyEngine::Epoll($engine) => $call,
            AnyEngine::Uepoll($engine) => $call,
            AnyEngine::Uring($engine) => $call,
        }
    };
}

impl Engine for AnyEngine {
    fn now(&self) -> Time {
        each!(self, engine => engine.now())
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        each!(self, engine => engine.listen(addr))
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<SocketId> {
        each!(self, engine => engine.connect(addr))
    }

    #[inline]
    fn recv(&mut self, socket: SocketId, bufs: RecvBufs) -> Option<Received> {
        each!(self, engine => engine.recv(socket, bufs))
    }

    #[inline]
    fn send(&mut self, socket: SocketId, list: List) -> Option<Sent> {
        each!(self, engine => engine.send(socket, list))
    }

    #[inline]
    fn lends(&self) -> bool {
        each!(self, engine => engine.lends())
    }

    #[inline]
    fn await_readable(&mut self, socket: SocketId) {
        each!(self, engine => engine.await_readable(socket));
    }

    fn recall(&mut self, socket: SocketId) {
        each!(self, engine => engine.recall(socket));
    }

    fn shutdown(&mut self, socket: SocketId) {
        each!(self, engine => engine.shutdown(socket));
    }

    fn close(&mut self, socket: SocketId) {
        each!(self, engine => engine.close(socket));
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        each!(self, engine => engine.poll(wait, events))
    }

    fn waker(&self) -> Waker {
        each!(self, engine => engine.waker())
    }

    fn stats(&self) -> Stats {
        each!(self, engine => engine.stats())
    }
}
