//! A thread with an export and everything under it.

use crate::device::{Opener, Prepared, Source};
use crate::failure::Failure;
use onego::block::Host;
use onego::ceph::Config;
use onego::zero_copy::Settings;
use onego::{EngineKind, Spin, Wait};
use onego_export::nbd::{self, Export, Server};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What a reactor is told to serve.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) sources: Vec<(Source, Prepared)>,
    pub(crate) pool: Option<String>,
    pub(crate) read_only: bool,
    /// How the cluster of the images is reached; `None`: no source is an image.
    pub(crate) cluster: Option<Config>,
    pub(crate) engine: EngineKind,
    pub(crate) zero_copy: Settings,
    pub(crate) spin: Spin,
}

/// A running reactor. It ends when this value is dropped.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    waker: onego::Waker,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Starts a reactor that serves the plan on a listening socket, and waits until it does. `failed` gets the reason if it ends
/// by itself later.
pub(crate) fn start(plan: Plan, socket: OwnedFd, failed: Sender<Failure>) -> Result<Running, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (started, start): (_, Receiver<Result<onego::Waker, Failure>>) = channel();
    let stopped = Arc::clone(&stop);
    let body = move || {
        let mut host = match begin(&plan, socket) {
            Ok(host) => host,
            Err(error) => return drop(started.send(Err(error))),
        };
        if started.send(Ok(host.waker())).is_err() {
            return;
        }
        while !stopped.load(Ordering::Acquire) {
            let turned = host.turn(Wait::Forever).map_err(Failure::from);
            let listened = host.export().0.failure().map_or(Ok(()), |error| Err(listening(error)));
            if let Err(error) = turned.and(listened) {
                // The receiver may be gone.
                let _ = failed.send(error);
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("onego-export".into()).spawn(body);
    let thread = thread.map_err(Failure::io("starting a reactor"))?;
    // Without an answer the thread has panicked, and said so.
    let waker = start.recv().map_err(|_| onego::ceph::Error::Closed)??;
    Ok(Running { stop, waker, thread: Some(thread) })
}

fn listening(error: std::io::Error) -> Failure {
    Failure::Io { what: "listening", source: error }
}

/// Opens the devices, and makes the server of them.
fn begin(plan: &Plan, socket: OwnedFd) -> Result<Host<Server>, Failure> {
    let server = |_| Server::new(nbd::Config::default());
    let mut host = Host::open(plan.engine, plan.zero_copy, plan.spin, server)?;
    let mut opener = Opener::new(plan.cluster.as_ref(), plan.pool.as_deref());
    for (source, prepared) in &plan.sources {
        let device = opener.open(&mut host, prepared, plan.read_only)?;
        let export = Export {
            name: source.export_name(plan.pool.as_deref()),
            description: source.to_string(),
            device,
            read_only: plan.read_only,
        };
        host.export().0.add_export(export).map_err(|error| Failure::Usage(error.to_string()))?;
    }
    host.export().0.adopt(socket);
    Ok(host)
}
