//! The threads of a device: each serves one queue, with a client of the cluster of its own.

use crate::device::{Opener, Prepared};
use crate::failure::Failure;
use crate::metrics::{CountingExport, ReactorFigures, ReactorMetrics};
use onego::block::{Device, Geometry, Host};
use onego::ceph::Config;
use onego::zero_copy::Settings;
use onego::{EngineKind, Spin, Wait, Waker};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What serves one queue of a device, on a thread of its own.
pub(super) trait QueueServer: CountingExport + Sized + 'static {
    /// What the kernel gives of a queue.
    type KernelEnd: Send + 'static;

    /// A server without a queue, which tells of requests that take as long.
    fn begin(slow: Option<Duration>) -> Self;

    /// Begins to serve the queue of that number.
    fn serve(
        host: &mut Host<Self>,
        source: Rc<dyn Device>,
        kernel: Self::KernelEnd,
        number: u16,
    ) -> Result<(), Failure>;

    /// Why it does not go on; told once.
    fn failure(&mut self) -> Option<io::Error>;

    /// Has the kernel no more requests?
    fn is_over(&self) -> bool;
}

/// What each thread opens, and how it moves bytes.
#[derive(Clone)]
pub(super) struct QueuePlan {
    pub(super) source: Prepared,
    pub(super) pool: Option<String>,
    pub(super) read_only: bool,
    /// How the cluster of an image is reached; `None`: the source is none.
    pub(super) cluster: Option<Config>,
    pub(super) engine: EngineKind,
    pub(super) zero_copy: Settings,
    pub(super) spin: Spin,
    /// Requests that take as long are told of.
    pub(super) slow: Option<Duration>,
}

/// The threads of a device. They end when this value is dropped, and by themselves when the device is stopped.
pub(super) struct Queues<K> {
    flags: Arc<Flags>,
    threads: Vec<QueueThread<K>>,
    geometry: Geometry,
    /// What the source becomes, as the first thread sees it.
    changes: Option<Receiver<Geometry>>,
}

/// What the threads and their owner tell each other.
#[derive(Default)]
struct Flags {
    /// The threads are to end.
    stop: AtomicBool,
    /// A thread has ended that should not have: requests of its queue stay where they are.
    broken: AtomicBool,
}

struct QueueThread<K> {
    /// Takes the kernel's end, once the device is there.
    kernel: Option<Sender<K>>,
    served: Receiver<Result<(), Failure>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl<K: Send + 'static> Queues<K> {
    /// Starts `count` threads, and have each open the plan's source. `failed` gets the reason if one ends by itself later; it is
    /// dropped by the last thread that ends.
    pub(super) fn open<S: QueueServer<KernelEnd = K>>(
        plan: &QueuePlan,
        count: u16,
        metrics: &ReactorMetrics,
        failed: &Sender<Failure>,
    ) -> Result<Self, Failure> {
        let flags = Arc::<Flags>::default();
        let mut threads = Vec::new();
        let mut geometry = None;
        let (changed, changes) = channel();
        for number in 0..count {
            let (opened, open) = channel();
            let (kernel, comes) = channel();
            let (serving, served) = channel();
            let (plan, flags, failed) = (plan.clone(), Arc::clone(&flags), failed.clone());
            let metrics = metrics.clone();
            let changed = (number == 0).then(|| changed.clone());
            let body = move || match begin::<S>(&plan) {
                Ok((mut host, begun)) => {
                    if opened.send(Ok((begun.geometry(), host.waker()))).is_err() {
                        return;
                    }
                    // Without a device nobody wants the thread any more.
                    let Ok(kernel) = comes.recv() else { return };
                    let mut watched = Watched { known: begun.geometry(), source: Rc::clone(&begun), changed };
                    let began = serve(&mut host, begun, kernel, number);
                    let goes_on = began.is_ok();
                    let figures = metrics.begin(&host);
                    if serving.send(began).is_ok()
                        && goes_on
                        && let Err(error) = turn(&mut host, &mut watched, &figures, &flags.stop)
                    {
                        flags.broken.store(true, Ordering::Release);
                        // The receiver may be gone.
                        let _ = failed.send(error);
                    }
                }
                // Whoever waits for it takes it.
                Err(error) => drop(opened.send(Err(error))),
            };
            let thread = std::thread::Builder::new().name(format!("onego-map-{number}")).spawn(body);
            let thread = thread.map_err(Failure::io("starting a thread"))?;
            // Without an answer the thread has panicked, and said so.
            let (sees, waker) = open.recv().map_err(|_| onego::ceph::Error::Closed)??;
            geometry = Some(sees);
            threads.push(QueueThread { kernel: Some(kernel), served, waker, thread: Some(thread) });
        }
        let geometry = geometry.ok_or_else(|| Failure::Usage("a device has at least one queue".into()))?;
        Ok(Self { flags, threads, geometry, changes: Some(changes) })
    }

    /// What the source becomes later. There is one receiver, which ends with the threads.
    pub(super) fn changes(&mut self) -> Receiver<Geometry> {
        self.changes.take().unwrap_or_else(|| channel().1)
    }

    /// What the source is like.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Do all threads serve?
    pub(super) fn are_whole(&self) -> bool {
        !self.flags.broken.load(Ordering::Acquire)
    }

    /// Has each thread serve its queue of the device. Threads that there is no queue for end.
    pub(super) fn serve(&mut self, ends: Vec<K>) -> Result<(), Failure> {
        self.threads.truncate(ends.len());
        for (thread, end) in self.threads.iter_mut().zip(ends) {
            if let Some(to) = thread.kernel.take() {
                // A thread that is gone gives no answer.
                let _ = to.send(end);
            }
        }
        for thread in &self.threads {
            thread.served.recv().map_err(|_| onego::ceph::Error::Closed)??;
        }
        Ok(())
    }
}

impl<K> Drop for Queues<K> {
    fn drop(&mut self) {
        self.flags.stop.store(true, Ordering::Release);
    }
}

impl<K> Drop for QueueThread<K> {
    fn drop(&mut self) {
        self.kernel = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Opens the source.
fn begin<S: QueueServer>(plan: &QueuePlan) -> Result<(Host<S>, Rc<dyn Device>), Failure> {
    let mut host = Host::open(plan.engine, plan.zero_copy, plan.spin, |_| S::begin(plan.slow))?;
    let mut opener = Opener::new(plan.cluster.as_ref(), plan.pool.as_deref());
    let device = opener.open(&mut host, &plan.source, plan.read_only)?;
    Ok((host, device))
}

/// Begins to serve a queue.
fn serve<S: QueueServer>(
    host: &mut Host<S>,
    source: Rc<dyn Device>,
    kernel: S::KernelEnd,
    number: u16,
) -> Result<(), Failure> {
    S::serve(host, source, kernel, number)?;
    host.export().0.failure().map_or(Ok(()), |error| Err(serving(error)))
}

/// A source whose size may change.
struct Watched {
    source: Rc<dyn Device>,
    known: Geometry,
    /// Who wants to know; nobody else need ask.
    changed: Option<Sender<Geometry>>,
}

impl Watched {
    fn look(&mut self) {
        let Some(changed) = &self.changed else { return };
        let geometry = self.source.geometry();
        if geometry.size != self.known.size {
            self.known = geometry;
            // The receiver may be gone.
            let _ = changed.send(geometry);
        }
    }
}

/// Serves the queue until the device is stopped, or until that is asked for.
fn turn<S: QueueServer>(
    host: &mut Host<S>,
    watched: &mut Watched,
    figures: &ReactorFigures,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    while !stop.load(Ordering::Acquire) && !host.export().0.is_over() {
        figures.tell(host);
        host.turn(Wait::Forever)?;
        if let Some(error) = host.export().0.failure() {
            return Err(serving(error));
        }
        watched.look();
    }
    Ok(())
}

fn serving(source: io::Error) -> Failure {
    Failure::Io { what: "serving a queue", source }
}
