//! A cluster on a thread of its own.

use super::machine::{Addresses, ClusterMachine};
use crate::auth::{Cephx, KEYRING};
use crate::config::{Config, MAX_OSDS, OsdSettings, Settings, conf_text};
use crate::mon::{NewPool, Usage};
use onego_ceph::addr::AddrVec;
use onego_ceph::auth::Keyring;
use onego_ceph::types::Uuid;
use onego_engine::{AnyEngine, Pump, Wait, Waker};
use onego_wire::Time;
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// Why a cluster did not start, or is not there any more.
#[derive(Debug, Error)]
pub enum Error {
    /// The event engine could not be opened.
    #[error("cannot open the event engine {kind}: {source}")]
    Engine {
        /// The engine's name.
        kind: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address to listen on is none that clients could be told.
    #[error("a cluster cannot listen on {0}: name the address by which clients are to reach it")]
    Unspecified(IpAddr),
    /// There cannot be so many OSDs.
    #[error("a cluster has from 1 to {MAX_OSDS} OSDs, not {0}")]
    Osds(u32),
    /// A daemon cannot listen where it should.
    #[error("the cluster does not come up: {0}")]
    Listen(io::Error),
    /// The thread cannot be started.
    #[error("cannot start the cluster's thread: {0}")]
    Thread(io::Error),
    /// There is no randomness to make an id of.
    #[error("cannot make an id for the cluster: {0}")]
    Id(io::Error),
    /// The `ceph.conf` cannot be written.
    #[error("cannot write {path}: {source}")]
    Conf {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The event engine failed, and the cluster with it.
    #[error("the cluster has stopped: its event engine failed")]
    Stopped,
}

/// What a cluster has cost so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Processor time of the cluster's thread.
    pub cpu: Duration,
    /// System calls and bytes.
    pub engine: onego_engine::Stats,
    /// What the cluster holds.
    pub usage: Usage,
}

type Pumped = Pump<AnyEngine, ClusterMachine>;

/// Something to be done on the cluster's thread.
type Task = Box<dyn FnOnce(&mut Pumped) + Send>;

/// A running cluster of one monitor and its OSDs. It stops when this value is dropped.
///
/// ```
/// # fn main() -> Result<(), onego_server::Error> {
/// use onego_server::{Cluster, Config};
///
/// let cluster = Cluster::start(Config::default())?;
/// assert!(cluster.conf().contains(&cluster.mon_addr().to_string()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Cluster {
    fsid: Uuid,
    addresses: Addresses,
    /// Who has a key; none: nobody needs one.
    keyring: Option<Keyring>,
    tasks: Option<Sender<Task>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// A UUID that nobody has.
fn fresh_uuid() -> Result<Uuid, Error> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(Error::Id)?;
    text.trim().parse().map_err(|error| Error::Id(io::Error::other(error)))
}

/// Bytes that nobody can guess.
fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Id(error.into()))?;
    Ok(bytes)
}

/// Writes a file that only its owner may read.
fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

impl Cluster {
    /// Starts a cluster. When this returns, clients may connect.
    pub fn start(config: Config) -> Result<Self, Error> {
        // The maps say where the daemons are, and clients go there.
        if config.listen.is_unspecified() {
            return Err(Error::Unspecified(config.listen));
        }
        let fsid = config.fsid.map_or_else(fresh_uuid, Ok)?;
        if !(1..=MAX_OSDS).contains(&config.osds) {
            return Err(Error::Osds(config.osds));
        }
        let osds =
            (0..config.osds as u16).map(|osd| Ok(OsdSettings::new(fresh_uuid()?, config.osd_addrs(osd))));
        let settings = Settings {
            fsid,
            mon: config.mon_addrs(),
            osds: osds.collect::<Result<_, Error>>()?,
            memory_limit: config.memory_limit,
            null_writes: config.null_writes,
            pools: config.pools,
            cephx: if config.cephx { Some(Cephx::new(random()?)) } else { None },
        };
        let keyring = settings.cephx.as_ref().map(|cephx| cephx.keyring.clone());
        let (tasks, inbox) = channel();
        let (started, up) = channel();
        let (kind, zero_copy) = (config.engine, config.zero_copy);
        let body = move || {
            let mut engine = match onego_engine::open(kind) {
                Ok(engine) => engine,
                Err(source) => {
                    let error = Error::Engine { kind: kind.to_string(), source };
                    return drop(started.send(Err(error)));
                }
            };
            engine.set_zero_copy(zero_copy);
            serve(Pump::new(engine, ClusterMachine::new(settings)), &started, &inbox);
        };
        let thread =
            std::thread::Builder::new().name("onego-cluster".into()).spawn(body).map_err(Error::Thread)?;
        let (addresses, waker) = up.recv().map_err(|_| Error::Stopped)??;
        let cluster = Self { fsid, addresses, keyring, tasks: Some(tasks), waker, thread: Some(thread) };
        if let Some(dir) = &config.conf_dir {
            cluster.write_conf(dir)?;
        }
        Ok(cluster)
    }

    /// The cluster's id.
    pub fn fsid(&self) -> Uuid {
        self.fsid
    }

    /// Where clients reach the monitor.
    pub fn mon_addr(&self) -> &AddrVec {
        &self.addresses.mon
    }

    /// Where clients reach the OSDs, in their first lives.
    pub fn osd_addrs(&self) -> &[AddrVec] {
        &self.addresses.osds
    }

    /// A `ceph.conf` that Ceph's programs, and ours, take as it is. If they need a key, it names a keyring in the
    /// current folder.
    pub fn conf(&self) -> String {
        self.conf_in(Path::new(""))
    }

    fn conf_in(&self, dir: &Path) -> String {
        let keyring = self.keyring.as_ref().map(|_| dir.join(KEYRING));
        let osds = self.addresses.osds.len() as u32;
        conf_text(self.fsid, &self.addresses.mon, osds, keyring.as_deref())
    }

    /// The keyring of those who may use the cluster; none: everybody may.
    pub fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    /// Writes a `ceph.conf` into a folder, which is made if it is not there, and says where. The keyring that it names
    /// lies beside it.
    pub fn write_conf(&self, dir: &Path) -> Result<PathBuf, Error> {
        let path = dir.join("ceph.conf");
        // Whoever waits for the file must not see half of it.
        let part = dir.join(".ceph.conf.part");
        let write = || {
            std::fs::create_dir_all(dir)?;
            let dir = dir.canonicalize()?;
            if let Some(keyring) = &self.keyring {
                write_secret(&dir.join(KEYRING), keyring.to_text().as_bytes())?;
            }
            std::fs::write(&part, self.conf_in(&dir))?;
            std::fs::rename(&part, &path)
        };
        match write() {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::Conf { path, source }),
        }
    }

    /// Does something to the cluster's machine, on its thread, and says what came of it.
    pub fn with<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut ClusterMachine, Time) -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.run(|pump| {
            let now = pump.now();
            task(pump.machine_mut(), now)
        })
    }

    fn run<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Pumped) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (result, answer) = channel();
        let task: Task = Box::new(move |pump| drop(result.send(task(pump))));
        let tasks = self.tasks.as_ref().ok_or(Error::Stopped)?;
        tasks.send(task).map_err(|_| Error::Stopped)?;
        self.waker.wake();
        answer.recv().map_err(|_| Error::Stopped)
    }

    /// Makes a pool, unless there is one of that name, and says its id.
    pub fn create_pool(&self, pool: NewPool) -> Result<Option<i64>, Error> {
        self.with(move |machine, now| machine.create_pool(now, &pool))
    }

    /// Stops an OSD and starts it again: connections break, objects stay.
    pub fn restart_osd(&self, osd: i32) -> Result<(), Error> {
        self.with(move |machine, now| machine.restart_osd(now, osd))
    }

    /// Stops an OSD: connections break, objects stay.
    pub fn stop_osd(&self, osd: i32) -> Result<(), Error> {
        self.with(move |machine, now| machine.stop_osd(now, osd))
    }

    /// Starts an OSD that was stopped. It catches up with what it has missed.
    pub fn start_osd(&self, osd: i32) -> Result<(), Error> {
        self.with(move |machine, now| machine.start_osd(now, osd))
    }

    /// What the cluster has cost so far.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.run(|pump| {
            let cpu = clock_gettime(ClockId::ThreadCPUTime);
            Stats {
                cpu: Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec.unsigned_abs() as u32),
                engine: pump.stats(),
                usage: pump.machine().usage(),
            }
        })
    }
}

impl Drop for Cluster {
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

/// Runs the cluster until nobody holds it any more.
fn serve(mut pump: Pumped, started: &Sender<Result<(Addresses, Waker), Error>>, inbox: &Receiver<Task>) {
    // The listeners are opened in the first turn.
    let first = pump.turn(Wait::Poll).map_err(Error::Listen);
    let up = first.and_then(|()| match pump.machine_mut().failure() {
        Some(error) => Err(Error::Listen(error)),
        None => pump.machine().addresses().ok_or(Error::Stopped),
    });
    let failed = up.is_err();
    if started.send(up.map(|addresses| (addresses, pump.waker()))).is_err() || failed {
        return;
    }
    loop {
        match inbox.try_recv() {
            Ok(task) => task(&mut pump),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                if let Err(error) = pump.turn(Wait::Forever) {
                    tracing::error!(%error, "the event engine failed");
                    return;
                }
            }
        }
    }
}
