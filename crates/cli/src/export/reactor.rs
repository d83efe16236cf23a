//! A thread with an export and everything under it.

use super::limits::{LimitOptions, Limits};
use super::served::images;
use crate::device::{Opener, Prepared, Source};
use crate::failure::Failure;
use crate::metrics::{CountingExport, ReactorMetrics};
use crate::partial_import::IncompleteArgs;
use crate::spec::PoolSpec;
use onego::block::Host;
use onego::ceph::Config;
use onego::zero_copy::Settings;
use onego::{EngineKind, Spin, Wait};
use onego_export::nbd::{self, Export, Server, Tls};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a reactor serves.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) sources: Vec<(Source, Prepared)>,
    /// Pools of which all images are served.
    pub(crate) pools: Vec<PoolSpec>,
    pub(crate) incomplete: IncompleteArgs,
    pub(crate) pool: Option<String>,
    pub(crate) read_only: bool,
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: LimitOptions,
    /// How the cluster of the images is reached; `None`: no source is an image.
    pub(crate) cluster: Option<Config>,
    pub(crate) engine: EngineKind,
    pub(crate) zero_copy: Settings,
    pub(crate) spin: Spin,
    pub(crate) slow: Option<Duration>,
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

/// An export that listens.
pub(crate) trait ListeningExport: CountingExport {
    /// Why it cannot listen; told once.
    fn failure(&mut self) -> Option<io::Error>;
}

impl ListeningExport for Server {
    fn failure(&mut self) -> Option<io::Error> {
        self.failure()
    }
}

/// Starts a reactor of the host that `begin` makes on its thread, and waits until it has. `failed` gets the reason if it ends
/// by itself later.
pub(crate) fn start<E: ListeningExport>(
    begin: impl FnOnce() -> Result<Host<E>, Failure> + Send + 'static,
    metrics: ReactorMetrics,
    failed: Sender<Failure>,
) -> Result<Running, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (started, start): (_, Receiver<Result<onego::Waker, Failure>>) = channel();
    let stopped = Arc::clone(&stop);
    let body = move || {
        let mut host = match begin() {
            Ok(host) => host,
            Err(error) => return drop(started.send(Err(error))),
        };
        let figures = metrics.begin(&host);
        if started.send(Ok(host.waker())).is_err() {
            return;
        }
        while !stopped.load(Ordering::Acquire) {
            figures.tell(&mut host);
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

/// Opens the devices, and makes the server of NBD of them.
pub(crate) fn begin(plan: &Plan, sockets: Vec<OwnedFd>) -> Result<Host<Server>, Failure> {
    let config = nbd::Config { tls: plan.tls.clone(), slow: plan.slow, ..nbd::Config::default() };
    let server = |_| Server::new(config);
    let mut host = Host::open(plan.engine, plan.zero_copy, plan.spin, server)?;
    let mut opener = Opener::new(plan.cluster.as_ref(), plan.pool.as_deref());
    let limits = Limits::new(plan.limits);
    let add = |host: &mut Host<Server>, opener: &mut Opener<'_>, source: &Source, prepared: &Prepared| {
        let read_only = plan.read_only || source.is_snapshot();
        let device = opener.open(host, prepared, read_only)?;
        let export = Export {
            name: source.export_name(plan.pool.as_deref()),
            description: source.to_string(),
            device: limits.bound(device),
            read_only,
        };
        host.export().0.add_export(export).map_err(|error| Failure::Usage(error.to_string()))
    };
    for (source, prepared) in &plan.sources {
        add(&mut host, &mut opener, source, prepared)?;
    }
    for place in &plan.pools {
        for (source, prepared) in images(&mut host, &mut opener, place, plan.incomplete)? {
            // The others are served, whatever an image has that cannot be.
            if let Err(failure) = add(&mut host, &mut opener, &source, &prepared) {
                tracing::warn!("{source} is not served: {}", failure.sentence());
            }
        }
    }
    sockets.into_iter().for_each(|socket| host.export().0.adopt(socket));
    Ok(host)
}
