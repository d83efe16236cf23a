//! A machine on a thread of its own, and the hold that others have on it.

use onego_engine::{AnyEngine, EngineKind, Pump, Spin, Wait, Waker, zero_copy};
use onego_wire::Machine;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

/// A machine, and what moves its bytes.
pub type Pumped<M> = Pump<AnyEngine, M>;

/// Something to be done on the thread.
type Task<M> = Box<dyn FnOnce(&mut Pumped<M>) + Send>;

/// Why a cluster or a server did not start on a thread of its own, or is not there any more.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The event engine could not be opened.
    #[error("cannot open the event engine {kind}: {source}")]
    Engine {
        /// Which.
        kind: EngineKind,
        /// What the system says.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The event engine failed, and what it served with it.
    #[error("the service has ended: its event engine failed: {0}")]
    Turn(io::Error),
    /// It is not there any more.
    #[error("the service has ended, and has said why")]
    Stopped,
}

/// A machine that runs. It stops when this value is dropped.
pub struct Service<M, E> {
    tasks: Option<Sender<Task<M>>>,
    waker: Waker,
    /// The reason for which the thread has ended by itself. `None`: another caller waits for it.
    failure: Mutex<Option<Receiver<E>>>,
    thread: Option<JoinHandle<()>>,
}

impl<M, E> fmt::Debug for Service<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl<M, E> Service<M, E>
where
    M: Machine + 'static,
    E: From<ServiceError> + fmt::Display + Send + 'static,
{
    /// Starts a thread of that name. There, `begin` makes the pump of an engine of that kind, returns what the caller
    /// wants to know, and what is to be done before each turn.
    pub fn start<T: Send + 'static, X: FnMut(&mut Pumped<M>) -> Result<(), E>>(
        name: &'static str,
        kind: EngineKind,
        zero_copy: zero_copy::Settings,
        spin: Spin,
        begin: impl FnOnce(AnyEngine) -> Result<(Pumped<M>, T, X), E> + Send + 'static,
    ) -> Result<(Self, T), E> {
        let (tasks, inbox) = channel();
        let (started, up) = channel();
        let (failed, failure) = channel();
        let body = move || {
            let engine =
                onego_engine::open(kind).map_err(|source| ServiceError::Engine { kind, source }.into());
            let begun = engine.and_then(|mut engine| {
                engine.set_zero_copy(zero_copy);
                begin(engine)
            });
            let (mut pump, told, exchange) = match begun {
                Ok(begun) => begun,
                // `start` waits for the result.
                Err(error) => return drop(started.send(Err(error))),
            };
            pump.set_spin(spin);
            if started.send(Ok((told, pump.waker()))).is_ok()
                && let Err(error) = serve(&mut pump, &inbox, exchange)
            {
                tracing::error!(%error, "{name} ends");
                // The receiver may have been dropped.
                let _ = failed.send(error);
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = thread.map_err(|error| E::from(ServiceError::Thread(error)))?;
        let (told, waker) = up.recv().map_err(|_| ServiceError::Stopped)??;
        let failure = Mutex::new(Some(failure));
        Ok((Self { tasks: Some(tasks), waker, failure, thread: Some(thread) }, told))
    }

    /// Wakes the thread, which then exchanges what there is to be exchanged before its next turn.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Does something on the thread, and says what came of it.
    pub fn run<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Pumped<M>) -> R + Send + 'static,
    ) -> Result<R, E> {
        let (result, answer) = channel();
        let task: Task<M> = Box::new(move |pump| drop(result.send(task(pump))));
        let tasks = self.tasks.as_ref().ok_or(ServiceError::Stopped)?;
        tasks.send(task).map_err(|_| ServiceError::Stopped)?;
        self.waker.wake();
        Ok(answer.recv().map_err(|_| ServiceError::Stopped)?)
    }
}

impl<M, E> Service<M, E> {
    /// Receives the reason if the thread ends by itself, and is closed when the thread is gone. `None` for all callers but
    /// the first.
    pub fn failure(&self) -> Option<Receiver<E>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<M, E> Drop for Service<M, E> {
    fn drop(&mut self) {
        // Without a sender the thread finds its inbox closed, and ends.
        self.tasks = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic, if it had one, was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Runs until the service is dropped, or fails.
fn serve<M: Machine, E: From<ServiceError>>(
    pump: &mut Pumped<M>,
    inbox: &Receiver<Task<M>>,
    mut exchange: impl FnMut(&mut Pumped<M>) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        match inbox.try_recv() {
            Ok(task) => task(pump),
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {
                exchange(pump)?;
                pump.turn(Wait::Forever).map_err(ServiceError::Turn)?;
            }
        }
    }
}

/// Descriptors that this process may have. A server with as many connections has none left to accept another one, and
/// could not let the idlest give way.
pub fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
