//! A simulated server. It carries calls out as they arrive, or as jobs.
//!
//! Where the real server has threads for its jobs, here each job waits for as long as the seed says, is carried out in the
//! order that follows from that, and is answered some time later. A crash loses the jobs that wait, and the replies to
//! those that were carried out.

use crate::files::store::Store;
use crate::files::user::entropy;
use onego_buf::Pool;
use onego_engine::Pump;
use onego_nfs_server::{Done, Export, Job, Rdma, ServerMachine, Squash};
use onego_testkit::{Node, Sim, SimEngine};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) const ADDR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const TCP: SocketAddr = SocketAddr::new(ADDR, 2049);
pub(crate) const RDMA: SocketAddr = SocketAddr::new(ADDR, Rdma::PORT);

/// How long a call waits, and how long its reply does, at the most: usually, and if the disk is slow.
const USUAL_MAX: Duration = Duration::from_millis(5);
const SLOW_MAX: Duration = Duration::from_secs(3);

/// How often unused files are closed.
const SWEEP: Duration = Duration::from_secs(5);

/// The fates of jobs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) carried_out: u64,
    /// Overtaken by one that came later.
    pub(crate) overtaken: u64,
    /// Lost with the server: before they were carried out, and after it.
    pub(crate) dropped: u64,
    pub(crate) unanswered: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.carried_out += other.carried_out;
        self.overtaken += other.overtaken;
        self.dropped += other.dropped;
        self.unanswered += other.unanswered;
    }
}

/// How a server carries calls out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    /// As they arrive.
    Inline,
    /// As jobs, late and in any order.
    Jobs,
}

/// The jobs of a server.
struct Workers<S: Store> {
    fs: S::Fs,
    random: SmallRng,
    /// The number of each, and when it is carried out.
    waiting: Vec<(Time, u64, Job)>,
    /// When each is answered.
    done: Vec<(Time, Done)>,
    taken: u64,
    sweep_at: Time,
    counts: Counts,
}

pub(crate) struct Server<S: Store> {
    pump: Pump<SimEngine, ServerMachine>,
    /// `None`: calls are carried out as they arrive.
    workers: Option<Workers<S>>,
}

fn export() -> Export {
    Export::default().with_squash(Squash::None).with_secure(false)
}

fn rdma() -> Rdma {
    Rdma::new(RDMA).with_entropy(entropy)
}

impl<S: Store> Server<S> {
    /// A server that starts at this moment. `seed` decides when its jobs are carried out.
    pub(crate) fn new(sim: &Sim, store: &S, execution: Execution, seed: u64) -> Self {
        let (addrs, rdma, pool) = (vec![TCP], Some(&rdma()), Pool::new(1 << 20));
        let fs = store.file_system();
        let (machine, workers) = match execution {
            Execution::Inline => (ServerMachine::new(addrs, rdma, export(), Box::new(fs), pool), None),
            Execution::Jobs => {
                let machine = ServerMachine::with_jobs(addrs, rdma, export(), pool);
                (machine, Some(Workers::new(fs, seed, sim.now())))
            }
        };
        Self { pump: Pump::new(sim.engine(ADDR), machine), workers }
    }

    /// The fates of jobs, if the server ends now.
    pub(crate) fn counts(&self) -> Counts {
        let Some(Workers { waiting, done, counts, .. }) = &self.workers else { return Counts::default() };
        Counts { dropped: waiting.len() as u64, unanswered: done.len() as u64, ..*counts }
    }
}

impl<S: Store> Node for Server<S> {
    fn addr(&self) -> IpAddr {
        Node::addr(&self.pump)
    }

    fn deadline(&self) -> Option<Time> {
        let workers = self.workers.as_ref().map(Workers::deadline);
        Node::deadline(&self.pump).into_iter().chain(workers).min()
    }

    fn turn(&mut self) {
        if let Some(workers) = &mut self.workers {
            workers.work(&mut self.pump);
        }
        Node::turn(&mut self.pump);
        if let Some(workers) = &mut self.workers {
            workers.take_jobs(&mut self.pump);
        }
    }
}

impl<S: Store> Workers<S> {
    fn new(fs: S::Fs, seed: u64, now: Time) -> Self {
        Self {
            fs,
            random: SmallRng::seed_from_u64(seed),
            waiting: Vec::new(),
            done: Vec::new(),
            taken: 0,
            sweep_at: now + SWEEP,
            counts: Counts::default(),
        }
    }

    fn deadline(&self) -> Time {
        let waiting = self.waiting.iter().map(|(at, ..)| *at);
        let done = self.done.iter().map(|(at, _)| *at);
        waiting.chain(done).chain([self.sweep_at]).min().expect("a sweep is due some time")
    }

    fn some_time(&mut self) -> Duration {
        match self.random.random_range(0..100) {
            0..50 => Duration::ZERO,
            50..99 => self.random.random_range(Duration::ZERO..USUAL_MAX),
            _ => self.random.random_range(Duration::ZERO..SLOW_MAX),
        }
    }

    fn take_jobs(&mut self, pump: &mut Pump<SimEngine, ServerMachine>) {
        while pump.machine().has_job()
            && let Some(job) = pump.machine_mut().next_job()
        {
            let at = pump.now() + self.some_time();
            self.waiting.push((at, self.taken, job));
            self.taken += 1;
        }
    }

    /// Carries out and answers the jobs that are due.
    fn work(&mut self, pump: &mut Pump<SimEngine, ServerMachine>) {
        let now = pump.now();
        while let Some(next) = self.next_waiting(now) {
            let (_, number, job) = self.waiting.swap_remove(next);
            self.counts.overtaken += u64::from(self.waiting.iter().any(|(_, earlier, _)| *earlier < number));
            self.counts.carried_out += 1;
            let done = job.carry_out(&mut self.fs);
            let at = now + self.some_time();
            self.done.push((at, done));
        }
        while let Some(next) = self.done.iter().position(|(at, _)| *at <= now) {
            let (_, done) = self.done.remove(next);
            pump.machine_mut().done(now, done);
        }
        if self.sweep_at <= now {
            self.sweep_at = now + SWEEP;
            S::sweep(&self.fs);
        }
    }

    /// The job that is next to be carried out, if one is due.
    fn next_waiting(&self, now: Time) -> Option<usize> {
        let due = self.waiting.iter().enumerate().filter(|(_, (at, ..))| *at <= now);
        due.min_by_key(|(_, (at, number, _))| (*at, *number)).map(|(place, _)| place)
    }
}
