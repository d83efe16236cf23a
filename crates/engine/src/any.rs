use crate::engine::{Engine, Event, Received, RecvBufs, Sent, Stats};
use crate::epoll::Epoll;
use crate::ring::{self, Mode, RingSize, Setup};
use crate::table::SocketId;
use crate::uepoll::Uepoll;
use crate::uring::Uring;
use crate::wait::Wait;
use crate::waker::Waker;
use crate::zero_copy::Settings;
use onego_buf::List;
use onego_wire::{LocalPort, Time};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

/// Kind of engine to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EngineKind {
    /// Readiness engine over epoll.
    #[default]
    Epoll,
    /// Readiness engine over an io_uring, which posts readiness to user memory.
    Uepoll,
    /// Completion engine over io_uring.
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

/// Error of an unknown engine name.
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

/// Engine chosen at run time.
pub enum AnyEngine {
    /// Readiness engine over epoll.
    Epoll(Box<Epoll>),
    /// Readiness engine over an io_uring, which posts readiness to user memory.
    Uepoll(Box<Uepoll>),
    /// Completion engine over io_uring.
    Uring(Box<Uring>),
}

/// Opens an engine. Falls back to epoll, with a warning that names the missing feature, if the kernel lacks one that
/// the engine needs.
pub fn open(kind: EngineKind) -> io::Result<AnyEngine> {
    open_with(kind, &ring::setup)
}

fn open_with(kind: EngineKind, setup: Setup<'_>) -> io::Result<AnyEngine> {
    let size = RingSize::default();
    let ringed = match kind {
        EngineKind::Epoll => return Epoll::open().map(Box::new).map(AnyEngine::Epoll),
        EngineKind::Uepoll => Uepoll::with(size, setup).map(|engine| AnyEngine::Uepoll(Box::new(engine))),
        EngineKind::Uring => {
            Uring::with(Mode::Deferred, size, setup).map(|engine| AnyEngine::Uring(Box::new(engine)))
        }
    };
    ringed.or_else(|error| {
        tracing::warn!("{error}: {} is used instead of {kind}", EngineKind::Epoll);
        Epoll::open().map(Box::new).map(AnyEngine::Epoll)
    })
}

impl AnyEngine {
    /// Returns the kind of this engine.
    pub fn kind(&self) -> EngineKind {
        match self {
            AnyEngine::Epoll(_) => EngineKind::Epoll,
            AnyEngine::Uepoll(_) => EngineKind::Uepoll,
            AnyEngine::Uring(_) => EngineKind::Uring,
        }
    }
}

macro_rules! each {
    ($any:expr, $engine:ident => $call:expr) => {
        match $any {
            AnyEngine::Epoll($engine) => $call,
            AnyEngine::Uepoll($engine) => $call,
            AnyEngine::Uring($engine) => $call,
        }
    };
}

impl AnyEngine {
    /// Sets the zero-copy policy for sends of future connections; by default, none is zero-copy.
    pub fn set_zero_copy(&mut self, settings: Settings) {
        each!(self, engine => engine.set_zero_copy(settings));
    }
}

impl Engine for AnyEngine {
    fn now(&self) -> Time {
        each!(self, engine => engine.now())
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        each!(self, engine => engine.listen(addr))
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        each!(self, engine => engine.adopt(socket))
    }

    fn attach(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        each!(self, engine => engine.attach(socket))
    }

    fn connect(&mut self, addr: SocketAddr, local: LocalPort) -> io::Result<SocketId> {
        each!(self, engine => engine.connect(addr, local))
    }

    fn watch(&mut self, descriptor: OwnedFd) -> io::Result<SocketId> {
        each!(self, engine => engine.watch(descriptor))
    }

    fn watch_signals(&mut self, eventfd: OwnedFd) -> io::Result<SocketId> {
        each!(self, engine => engine.watch_signals(eventfd))
    }

    fn send_descriptor(&mut self, socket: SocketId, message: &[u8], descriptor: OwnedFd) -> io::Result<()> {
        each!(self, engine => engine.send_descriptor(socket, message, descriptor))
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

    fn set_low_water(&mut self, socket: SocketId, bytes: usize) -> bool {
        each!(self, engine => engine.set_low_water(socket, bytes))
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

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        each!(self, engine => engine.pause(time))
    }

    fn sleep_elsewhere(&mut self) -> io::Result<Option<(BorrowedFd<'_>, Option<Duration>)>> {
        each!(self, engine => engine.sleep_elsewhere())
    }

    fn waker(&self) -> Waker {
        each!(self, engine => engine.waker())
    }

    fn stats(&self) -> Stats {
        each!(self, engine => engine.stats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    fn logged<T>(of: impl FnOnce() -> T) -> (T, String) {
        #[derive(Clone, Default)]
        struct Log(Arc<Mutex<Vec<u8>>>);
        impl Write for Log {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let result = tracing::subscriber::with_default(subscriber, of);
        let log = String::from_utf8(log.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap();
        (result, log)
    }

    #[test]
    fn epoll_replaces_io_uring_with_a_warning() {
        for kind in [EngineKind::Uepoll, EngineKind::Uring] {
            for (errno, reason) in [
                (libc::ENOSYS, "the kernel has no io_uring (Linux 5.1)"),
                (libc::EPERM, "io_uring is not allowed here"),
                (libc::ENOMEM, "Cannot allocate memory"),
            ] {
                let (engine, log) =
                    logged(|| open_with(kind, &|_, _| Err(io::Error::from_raw_os_error(errno))).unwrap());
                assert_eq!(engine.kind(), EngineKind::Epoll);
                assert!(log.contains("WARN") && log.contains(reason), "{log}");
                assert!(log.contains(&format!("epoll is used instead of {kind}")), "{log}");
            }
        }
    }

    #[test]
    fn an_engine_works_with_an_older_io_uring_and_warns_of_missing_features() {
        let only_interrupting = |mode, size| {
            if mode == Mode::Interrupting {
                ring::setup(mode, size)
            } else {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
        };
        for (kind, missing) in [
            (EngineKind::Uepoll, &["IORING_SETUP_COOP_TASKRUN (Linux 5.19)"][..]),
            (
                EngineKind::Uring,
                &["IORING_SETUP_DEFER_TASKRUN (Linux 6.1)", "IORING_SETUP_COOP_TASKRUN (Linux 5.19)"],
            ),
        ] {
            let (engine, log) = logged(|| open_with(kind, &only_interrupting).unwrap());
            assert_eq!(engine.kind(), kind);
            for feature in missing {
                assert!(log.contains(feature), "{log}");
            }
        }
    }

    #[test]
    fn a_kernel_with_all_features_causes_no_warning() {
        for kind in EngineKind::ALL {
            let (engine, log) = logged(|| open(kind).unwrap());
            assert_eq!((engine.kind(), log.as_str()), (kind, ""));
        }
    }

    #[test]
    fn engines_are_known_by_name() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.to_string().parse::<EngineKind>().unwrap(), kind);
        }
        let error = "kqueue".parse::<EngineKind>().unwrap_err().to_string();
        for kind in EngineKind::ALL {
            assert!(error.contains(&kind.to_string()), "{error}");
        }
    }
}
