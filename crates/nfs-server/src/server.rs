//! A server on a thread of its own.

use super::directory::{Directory, key};
use super::export::Export;
use super::figures::{Figures, Stats};
use super::machine::ServerMachine;
use super::memory::{Limits, Memory};
use super::transport::Rdma;
use super::workers::Workers;
use onego_buf::Pool;
use onego_engine::{AnyEngine, EngineKind, Pump, Spin, Wait, thread_cpu, zero_copy};
use onego_metrics::Published;
use onego_service::{Service, ServiceError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use thiserror::Error;

/// Bytes that are kept for payloads to come: the memory of what was overwritten or removed comes back here.
const IDLE_MEMORY: usize = 32 << 20;

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An empty file system in memory, in which there may be so much.
    Memory(Limits),
    /// A directory of this machine.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Where the key is kept that handles are signed with, so that they outlive the server; it is made if it is not
        /// there. `None`: a new key at each start, under which those of before are stale.
        handle_key: Option<PathBuf>,
    },
}

/// Bytes that calls to a directory have in memory, about.
const IN_FLIGHT: u64 = 256 << 20;

/// What a server is to be. It is changed by the methods that begin with `with_`, or field by field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where it listens, for NFS and MOUNT; port 0: any.
    pub listen: SocketAddr,
    /// Where and how it listens for NFS over RDMA, if it does.
    pub rdma: Option<Rdma>,
    /// What is served to whom.
    pub export: Export,
    /// What is served.
    pub source: Source,
    /// Which event engine moves the bytes.
    pub engine: EngineKind,
    /// Which sends are made without a copy.
    pub zero_copy: zero_copy::Settings,
    /// What the server does before it sleeps.
    pub spin: Spin,
    /// Calls that take as long are told of by an event of `tracing` with the target `onego::slow`; `None`: none are.
    pub slow: Option<Duration>,
}

impl Default for Config {
    /// An empty file system in memory on the loopback address, on any port, of at most 1 GiB in a million files.
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            rdma: None,
            export: Export::default(),
            source: Source::Memory(Limits { bytes: 1 << 30, files: 1 << 20 }),
            engine: EngineKind::default(),
            zero_copy: zero_copy::Settings::default(),
            spin: Spin::default(),
            slow: None,
        }
    }
}

impl Config {
    /// The same, listening here for NFS and MOUNT; port 0: any.
    pub fn with_listen(self, listen: SocketAddr) -> Self {
        Self { listen, ..self }
    }

    /// The same, reached over RDMA, too.
    pub fn with_rdma(self, rdma: Rdma) -> Self {
        Self { rdma: Some(rdma), ..self }
    }

    /// The same, with this export.
    pub fn with_export(self, export: Export) -> Self {
        Self { export, ..self }
    }

    /// The same, serving this.
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// The same, with the bytes moved by this engine.
    pub fn with_engine(self, engine: EngineKind) -> Self {
        Self { engine, ..self }
    }

    /// The same, with these settings of sends without a copy.
    pub fn with_zero_copy(self, zero_copy: zero_copy::Settings) -> Self {
        Self { zero_copy, ..self }
    }

    /// The same, doing this before it sleeps.
    pub fn with_spin(self, spin: Spin) -> Self {
        Self { spin, ..self }
    }
}

/// Why a server did not start, or is not there any more.
#[derive(Debug, Error)]
pub enum Error {
    /// It has no thread, or none any more.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The path of the export is none that clients can name.
    #[error(
        "{0:?} cannot be exported: a path that can be mounted starts with \"/\" and has at most 1024 bytes"
    )]
    Path(String),
    /// The directory cannot be served.
    #[error("cannot serve {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The key of handles cannot be kept.
    #[error("cannot keep the key of file handles in {file}: {source}")]
    Key {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot listen where it should.
    #[error("the server does not come up: {0}")]
    Listen(io::Error),
    /// There is no randomness to tell its handles from others.
    #[error("cannot get random bytes: {0}")]
    Random(io::Error),
}

/// What the server of a pump has cost so far.
fn stats(pump: &Pumped) -> Stats {
    let machine = pump.machine();
    Stats {
        cpu: thread_cpu(),
        engine: pump.stats(),
        calls: machine.calls(),
        connections: machine.connections(),
        operations: machine.operations(),
        idle_buffers: machine.idle_buffers(),
    }
}

type Pumped = onego_service::Pumped<ServerMachine>;

/// A running server. It stops when this value is dropped.
///
/// ```
/// # fn main() -> Result<(), onego_nfs_server::Error> {
/// use onego_nfs_server::{Config, Server};
///
/// let server = Server::start(Config::default())?;
/// println!("mount -o port={0},mountport={0},nolock 127.0.0.1:/export /mnt", server.addr().port());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    addrs: Vec<SocketAddr>,
    export: String,
    published: Arc<Published<Stats>>,
    service: Service<ServerMachine, Error>,
}

impl Server {
    /// Starts a server. When this returns, clients may connect.
    pub fn start(config: Config) -> Result<Self, Error> {
        if !config.export.is_mountable() {
            return Err(Error::Path(config.export.path));
        }
        let export = config.export.path.clone();
        let mut instance = [0; 8];
        getrandom::fill(&mut instance).map_err(|error| Error::Random(error.into()))?;
        let held = match &config.source {
            Source::Memory(limits) => limits.bytes,
            Source::Directory { .. } => IN_FLIGHT,
        };
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        // A device learns of memory once a slab.
        let registrable = match &config.rdma {
            Some(Rdma { devices: Some(_), .. }) => held,
            _ => config.zero_copy.registrable(held),
        };
        let pool = Pool::registrable(IDLE_MEMORY, registrable);
        let (addrs, rdma) = (vec![config.listen], config.rdma.as_ref());
        let (mut machine, directory) = match config.source {
            Source::Memory(limits) => {
                let now = onego_engine::now();
                let fs = Memory::new(limits, u64::from_ne_bytes(instance), pool.clone(), now);
                (ServerMachine::new(addrs, rdma, config.export, Box::new(fs), pool), None)
            }
            Source::Directory { path, handle_key } => {
                let directory = open_directory(path, handle_key, instance, pool.clone())?;
                let directory = directory.with_sync(config.export.sync);
                (ServerMachine::with_jobs(addrs, rdma, config.export, pool), Some(directory))
            }
        };
        machine.limit_connections(onego_service::descriptors() / 2);
        config.slow.into_iter().for_each(|slow| machine.set_slow(slow));
        let published = Arc::new(Published::<Stats>::default());
        let answering = Arc::clone(&published);
        let begin = move |engine| {
            let (pump, addrs) = begin(engine, machine)?;
            let workers = directory.map(|directory| Workers::start(&directory, &pump.waker())).transpose();
            let workers = workers.map_err(ServiceError::Thread)?;
            let exchange = move |pump: &mut Pumped| {
                answering.answer(|| stats(pump));
                workers.iter().for_each(|workers| exchange(pump, workers));
                Ok(())
            };
            Ok((pump, addrs, exchange))
        };
        let (service, addrs) =
            Service::start("onego-nfs", config.engine, config.zero_copy, config.spin, begin)?;
        Ok(Self { addrs, export, published, service })
    }

    /// Where clients reach it, for NFS and MOUNT alike.
    pub fn addr(&self) -> SocketAddr {
        self.addrs[0]
    }

    /// Where clients reach it for NFS over RDMA, if they do.
    pub fn rdma_addr(&self) -> Option<SocketAddr> {
        self.addrs.get(1).copied()
    }

    /// Receives the reason if the server ends by itself, and is closed when the server is gone. `None` for all callers but
    /// the first.
    pub fn failure(&self) -> Option<Receiver<Error>> {
        self.service.failure()
    }

    /// What others read of the server while it runs, and after it.
    pub fn figures(&self) -> Figures {
        let (published, export) = (Arc::clone(&self.published), self.export.clone());
        Figures { published, waker: self.service.waker(), export }
    }

    /// What the server has cost so far.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.service.run(|pump| stats(pump))
    }
}

/// Opens the directory that is to be served.
fn open_directory(
    path: PathBuf,
    handle_key: Option<PathBuf>,
    instance: [u8; 8],
    pool: Pool,
) -> Result<Directory, Error> {
    let key = match handle_key {
        Some(file) => key::keep(&file, &path).map_err(|source| Error::Key { file, source })?,
        None => key::random().map_err(Error::Random)?,
    };
    let opened = Directory::open(&path, &key, instance, pool);
    let directory = opened.map_err(|source| Error::Directory { path, source })?;
    if !directory.acts_as_callers() {
        tracing::warn!(
            "calls cannot have the rights of their callers (that takes root, or CAP_SETUID and CAP_SETGID): every caller \
             has those of the user that the server runs as, and owns what is made as that user"
        );
    }
    if !directory.handles_last() {
        tracing::warn!(
            "files cannot be opened by handles here (that takes CAP_DAC_READ_SEARCH and a file system that has them): \
             what clients have open is stale once the server has forgotten it or starts anew"
        );
    }
    Ok(directory)
}

/// Opens the listeners.
fn begin(engine: AnyEngine, machine: ServerMachine) -> Result<(Pumped, Vec<SocketAddr>), Error> {
    let mut pump = Pump::new(engine, machine);
    // They are opened in the first turn.
    pump.turn(Wait::Poll).map_err(Error::Listen)?;
    if let Some(error) = pump.machine_mut().failure() {
        return Err(Error::Listen(error));
    }
    let addrs = pump.machine().addresses().ok_or(ServiceError::Stopped)?;
    Ok((pump, addrs))
}

/// Tells the machine what has been done, and the workers what is to be.
fn exchange(pump: &mut Pumped, workers: &Workers) {
    while let Some(done) = workers.result() {
        let now = pump.now();
        pump.machine_mut().done(now, done);
    }
    while pump.machine().has_job()
        && let Some(job) = pump.machine_mut().next_job()
    {
        workers.submit(job);
    }
}
