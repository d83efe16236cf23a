//! The threads of a device: each serves one queue, with a client of the cluster of its own.

use crate::device::{Opener, Prepared};
use crate::failure::Failure;
use crate::metrics::{ReactorFigures, ReactorMetrics};
use onego::block::{Device, Geometry, Host};
use onego::ceph::Config;
use onego::zero_copy::Settings;
use onego::{EngineKind, Spin, Wait, Waker};
use onego_export::ublk::Target;
use onego_ublk::{CharDevice, Queue};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

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
    pub(super) slow: Option<Duration>,
}

/// The threads of a device. They end when this value is dropped, and by themselves when the device is stopped.
pub(super) struct Queues {
    flags: Arc<Flags>,
    threads: Vec<QueueThread>,
    geometry: Geometry,
}

/// What the threads and their owner tell each other.
#[derive(Default)]
struct Flags {
    /// The threads are to end.
    stop: AtomicBool,
    /// A thread has ended that should not have: requests of its queue stay where they are.
    broken: AtomicBool,
}

struct QueueThread {
    /// Takes the device, once it is there.
    device: Option<Sender<CharDevice>>,
    served: Receiver<Result<(), Failure>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Queues {
    /// Starts `count` threads, and have each open the plan's source. `failed` gets the reason if one ends by itself later; it is
    /// dropped by the last thread that ends.
    pub(super) fn open(
        plan: &QueuePlan,
        count: u16,
        metrics: &ReactorMetrics,
        failed: &Sender<Failure>,
    ) -> Result<Self, Failure> {
        let flags = Arc::<Flags>::default();
        let mut threads = Vec::new();
        let mut geometry = None;
        for number in 0..count {
            let (opened, open) = channel();
            let (device, comes) = channel();
            let (serving, served) = channel();
            let (plan, flags, failed) = (plan.clone(), Arc::clone(&flags), failed.clone());
            let metrics = metrics.clone();
            let body = move || match begin(&plan) {
                Ok((mut host, begun)) => {
                    if opened.send(Ok((begun.geometry(), host.waker()))).is_err() {
                        return;
                    }
                    // Without a device nobody wants the thread any more.
                    let Ok(device) = comes.recv() else { return };
                    let began = serve(&mut host, begun, device, number);
                    let goes_on = began.is_ok();
                    let figures = metrics.begin(&host);
                    if serving.send(began).is_ok()
                        && goes_on
                        && let Err(error) = turn(&mut host, &figures, &flags.stop)
                    {
                        flags.broken.store(true, Ordering::Release);
                        // The receiver may be gone.
                        let _ = failed.send(error);
                    }
                }
                // Whoever waits for it takes it.
                Err(error) => drop(opened.send(Err(error))),
            };
            let thread = std::thread::Builder::new().name(format!("onego-ublk-{number}")).spawn(body);
            let thread = thread.map_err(Failure::io("starting a thread"))?;
            // Without an answer the thread has panicked, and said so.
            let (sees, waker) = open.recv().map_err(|_| onego::ceph::Error::Closed)??;
            geometry = Some(sees);
            threads.push(QueueThread { device: Some(device), served, waker, thread: Some(thread) });
        }
        let geometry = geometry.ok_or_else(|| Failure::Usage("a device has at least one queue".into()))?;
        Ok(Self { flags, threads, geometry })
    }

    /// What the source is like.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Do all threads serve?
    pub(super) fn are_whole(&self) -> bool {
        !self.flags.broken.load(Ordering::Acquire)
    }

    /// Has each thread serve its queue of the device. Threads that the device has no queue for end.
    pub(super) fn serve(&mut self, device: &CharDevice) -> Result<(), Failure> {
        self.threads.truncate(usize::from(device.info().queues()));
        for thread in &mut self.threads {
            if let Some(to) = thread.device.take() {
                // A thread that is gone gives no answer.
                let _ = to.send(device.try_clone()?);
            }
        }
        for thread in &self.threads {
            thread.served.recv().map_err(|_| onego::ceph::Error::Closed)??;
        }
        Ok(())
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.flags.stop.store(true, Ordering::Release);
    }
}

impl Drop for QueueThread {
    fn drop(&mut self) {
        self.device = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

type QueueHost = Host<Target<Queue>>;

/// Opens the source.
fn begin(plan: &QueuePlan) -> Result<(QueueHost, Rc<dyn Device>), Failure> {
    if let Err(error) = onego_ublk::serve_block_device() {
        tracing::info!(%error, "memory may be gained by writing to the device that this process serves");
    }
    let mut host = Host::open(plan.engine, plan.zero_copy, plan.spin, |_| {
        let mut target = Target::new();
        plan.slow.into_iter().for_each(|slow| target.set_slow(slow));
        target
    })?;
    let mut opener = Opener::new(plan.cluster.as_ref(), plan.pool.as_deref());
    let device = opener.open(&mut host, &plan.source, plan.read_only)?;
    Ok((host, device))
}

/// Begins to serve a queue.
fn serve(
    host: &mut QueueHost,
    source: Rc<dyn Device>,
    device: CharDevice,
    number: u16,
) -> Result<(), Failure> {
    let queue = Queue::open(device, number)?;
    host.export().0.serve(queue, source).map_err(Failure::io("serving a queue"))?;
    // The kernel has all buffers after that.
    host.turn(Wait::Poll)?;
    host.export().0.failure().map_or(Ok(()), |error| Err(serving(error)))
}

/// Serves the queue until the device is stopped, or until that is asked for.
fn turn(host: &mut QueueHost, figures: &ReactorFigures, stop: &AtomicBool) -> Result<(), Failure> {
    while !stop.load(Ordering::Acquire) && !host.export().0.is_over() {
        figures.tell(host);
        host.turn(Wait::Forever)?;
        if let Some(error) = host.export().0.failure() {
            return Err(serving(error));
        }
    }
    Ok(())
}

fn serving(source: std::io::Error) -> Failure {
    Failure::Io { what: "serving a queue", source }
}
