//! A cluster on a thread of its own.

use super::daemons::Addresses;
use super::disk::{self, Disk};
use super::figures::{Figures, Stats};
use super::machine::ClusterMachine;
use super::notes::Keeping;
use crate::auth::{Cephx, KEYRING};
use crate::config::{Config, DEFAULT_MEMORY, MAX_OSDS, OsdSettings, Settings, conf_text};
use crate::journal::{DataError, Directory, Restored};
use crate::mon::NewPool;
use onego_ceph::types::Uuid;
use onego_engine::{AnyEngine, Pump, Wait, thread_cpu};
use onego_metrics::Published;
use onego_msgr::Compression;
use onego_msgr::addr::{AddrVec, Versions};
use onego_msgr::auth::{AuthName, Keyring, Secret, mode};
use onego_service::private_file::{self, PUBLIC, SECRET};
use onego_service::{Service, ServiceError, Trimmer};
use onego_wire::Time;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use thiserror::Error;
use zeroize::Zeroizing;

/// Why a cluster did not start, or is not there any more.
#[derive(Debug, Error)]
pub enum Error {
    /// It has no thread, or none any more.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The address to listen on is none that clients could be told.
    #[error("a cluster cannot listen on {0}: name the address by which clients are to reach it")]
    Unspecified(IpAddr),
    /// Connections are encrypted with a key that cephx gives, and in version 2 of the messenger's protocol.
    #[error(
        "a cluster that insists on encryption needs cephx, and offers version 2 of the messenger's protocol alone"
    )]
    CannotEncrypt,
    /// The number of OSDs is out of bounds.
    #[error("a cluster has from 1 to {MAX_OSDS} OSDs, not {0}")]
    Osds(u32),
    /// A daemon cannot listen where it should.
    #[error("the cluster does not come up: {0}")]
    Listen(io::Error),
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
    /// The data directory cannot be used. A cluster that runs ends by that: it acknowledges nothing that may not be
    /// durable.
    #[error("{0}")]
    Data(#[from] DataError),
    /// What is in the data directory cannot be restored.
    #[error("in {path}: {source}")]
    Restore {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: DataError,
    },
    /// There is a data directory, but nothing to be kept in it.
    #[error("a cluster that forgets what is written has no use for a data directory: leave out one of both")]
    NothingToKeep,
}

/// What the cluster of a pump has cost so far.
fn stats(pump: &Pumped) -> Stats {
    let machine = pump.machine();
    Stats {
        cpu: thread_cpu(),
        engine: pump.stats(),
        usage: machine.usage(),
        epoch: machine.osdmap().map_or(0, |map| map.epoch),
        operations: machine.operations(),
        idle_buffers: machine.idle_buffers(),
        connections: pump.connections(),
    }
}

type Pumped = onego_service::Pumped<ClusterMachine>;

/// A running cluster of one monitor and its OSDs. It stops when this value is dropped.
///
/// ```
/// # fn main() -> Result<(), onego_cluster::Error> {
/// use onego_cluster::{Cluster, Config};
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
    /// Where the monitor was before, if that was elsewhere.
    old_mon: Option<AddrVec>,
    memory_limit: u64,
    /// The keys of all clients. `None`: clients need no key.
    keyring: Option<Keyring>,
    compression: Option<Compression>,
    published: Arc<Published<Stats>>,
    service: Service<ClusterMachine, Error>,
}

/// A fresh UUID.
fn fresh_uuid() -> Result<Uuid, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Id(error.into()))?;
    Ok(Uuid::from_random(bytes))
}

/// What sets the records of a log apart from all that clients store.
fn fresh_salt() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| Error::Id(error.into()))
}

/// Random bytes.
fn random() -> Result<Secret, Error> {
    let mut bytes = vec![0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Id(error.into()))?;
    Ok(Secret::new(bytes))
}

impl Cluster {
    /// Starts a cluster. When this returns, clients may connect.
    pub fn start(config: Config) -> Result<Self, Error> {
        // The maps say where the daemons are, and clients go there.
        if config.listen.is_unspecified() {
            return Err(Error::Unspecified(config.listen));
        }
        if let Some(osds) = config.osds.filter(|osds| !(1..=MAX_OSDS).contains(osds)) {
            return Err(Error::Osds(osds));
        }
        let data = config.data.as_ref().map(|path| Data::open(path, &config)).transpose()?;
        let kept = data.as_ref().map(|data| &data.keeping.restored);
        let settings = settings(&config, kept)?;
        let fsid = settings.fsid;
        let required = settings.cephx.as_ref().filter(|cephx| cephx.is_required);
        let keyring = required.map(|cephx| cephx.keyring.clone());
        let compression = settings.compression.clone();
        let old_mon = kept.and_then(Restored::life).map(|life| life.mon.clone());
        let memory_limit = settings.memory_limit;
        let published = Arc::new(Published::<Stats>::default());
        let answering = Arc::clone(&published);
        let begin = move |engine| {
            let (pump, disk) = begin(engine, settings, data)?;
            let addresses = pump.machine().addresses().ok_or(ServiceError::Stopped)?;
            let mut trimmer = Trimmer::default();
            let exchange = move |pump: &mut Pumped| {
                trimmer.look(pump.machine().used());
                answering.answer(|| stats(pump));
                disk.as_ref().map_or(Ok(()), |disk| exchange(pump, disk))
            };
            Ok((pump, addresses, exchange))
        };
        let (service, addresses) =
            Service::start("onego-cluster", config.engine, config.zero_copy, config.spin, begin)?;
        let old_mon = old_mon.filter(|old| *old != addresses.mon);
        let cluster =
            Self { fsid, addresses, old_mon, memory_limit, keyring, compression, published, service };
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

    /// Where they reached it when the cluster ran last, if that was elsewhere. Clients that still go there find nothing.
    pub fn old_mon_addr(&self) -> Option<&AddrVec> {
        self.old_mon.as_ref()
    }

    /// Bytes that each OSD holds at most.
    pub fn memory_limit(&self) -> u64 {
        self.memory_limit
    }

    /// Receives the reason if the cluster ends by itself, and is closed when the cluster is gone. `None` for all callers but
    /// the first.
    pub fn failure(&self) -> Option<Receiver<Error>> {
        self.service.failure()
    }

    /// Where clients reach the OSDs, in their first lives.
    pub fn osd_addrs(&self) -> &[AddrVec] {
        &self.addresses.osds
    }

    /// A `ceph.conf` that Ceph's programs, and ours, take as it is. If they need a key, it names a keyring in the
    /// current folder; see [`conf_with_key`](Self::conf_with_key).
    pub fn conf(&self) -> String {
        self.conf_in(Path::new(""))
    }

    /// The same, with the key of `client.admin` in the text if clients need one. A client in this process needs no file
    /// then: `onego::ceph::Config::from_text` takes it.
    pub fn conf_with_key(&self) -> Zeroizing<String> {
        let key = self.keyring.as_ref().and_then(|keyring| keyring.entries.get(&AuthName::client("admin")));
        let Some(entry) = key else { return Zeroizing::new(self.conf()) };
        let (text, key) = (self.conf_by(Some("")), entry.key.to_base64());
        // With all of its room from the start, so that nothing is left behind where it was shorter.
        let mut secret = Zeroizing::new(String::with_capacity(text.len() + key.len() + 16));
        secret.push_str(&text);
        secret.push_str("key = ");
        secret.push_str(&key);
        secret.push('\n');
        secret
    }

    fn conf_in(&self, dir: &Path) -> String {
        let keyring = self.keyring.as_ref().map(|_| format!("keyring = {}", dir.join(KEYRING).display()));
        self.conf_by(keyring.as_deref())
    }

    fn conf_by(&self, keyring: Option<&str>) -> String {
        let osds = self.addresses.osds.len() as u32;
        conf_text(self.fsid, &self.addresses.mon, osds, keyring, self.compression.as_ref())
    }

    /// The keyring of those who may use the cluster; none: everybody may.
    pub fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    /// Writes a `ceph.conf` into a folder, which is made if it is not there, and says where. The keyring that it names
    /// lies beside it.
    pub fn write_conf(&self, dir: &Path) -> Result<PathBuf, Error> {
        let path = dir.join("ceph.conf");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Conf { path, source }
        };
        private_file::make_directory(dir).map_err(failed(&path))?;
        let dir = dir.canonicalize().map_err(failed(&path))?;
        if let Some(keyring) = &self.keyring {
            let path = dir.join(KEYRING);
            private_file::replace(&path, SECRET, keyring.to_text().as_bytes()).map_err(failed(&path))?;
        }
        private_file::replace(&path, PUBLIC, self.conf_in(&dir).as_bytes()).map_err(failed(&path))?;
        Ok(path)
    }

    /// Does something to the cluster's machine, on its thread, and says what came of it.
    pub fn with<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut ClusterMachine, Time) -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.service.run(|pump| {
            let now = pump.now();
            task(pump.machine_mut(), now)
        })
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

    /// What others read of the cluster while it runs, and after it.
    pub fn figures(&self) -> Figures {
        Figures { published: Arc::clone(&self.published), waker: self.service.waker() }
    }

    /// What the cluster has cost so far.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.service.run(|pump| stats(pump))
    }
}

/// Where a cluster is kept.
struct Data {
    directory: Directory,
    keeping: Keeping,
}

impl Data {
    fn open(path: &Path, config: &Config) -> Result<Self, Error> {
        if config.null_writes {
            return Err(Error::NothingToKeep);
        }
        let directory = Directory::open(path)?;
        let restored = Restored::load(&directory, config.memory_limit, fresh_salt()?)
            .map_err(|source| Error::Restore { path: directory.path().to_owned(), source })?;
        Ok(Self { directory, keeping: Keeping { restored, log_limit: config.log_limit } })
    }
}

/// What a cluster is to be, as far as it was not before.
fn settings(config: &Config, kept: Option<&Restored>) -> Result<Settings, Error> {
    let fsid = match kept.and_then(Restored::fsid) {
        Some(fsid) => agree("with the id", fsid, config.fsid)?,
        None => config.fsid.map_or_else(fresh_uuid, Ok)?,
    };
    let uuids = match kept.and_then(Restored::osds) {
        Some(uuids) => {
            agree("with a number of OSDs of", uuids.len() as u32, config.osds)?;
            uuids
        }
        None => (0..config.osds.unwrap_or(1)).map(|_| fresh_uuid()).collect::<Result<_, _>>()?,
    };
    let osds = (0..).zip(uuids).map(|(id, uuid)| OsdSettings::new(uuid, config.osd_addrs(id)));
    let osds: Vec<_> = osds.collect();
    let keyring = kept.and_then(Restored::keyring);
    if kept.and_then(Restored::fsid).is_some() {
        let method = |keys| if keys { "cephx" } else { "none" };
        agree("with authentication by", method(keyring.is_some()), config.cephx.map(method))?;
    }
    let mut cephx = match keyring {
        Some(keyring) => Cephx::of(keyring, random()?),
        None if config.cephx == Some(true) => Cephx::new(random()?),
        None => match kept.and_then(Restored::unchecked) {
            Some(keyring) => Cephx::of(keyring, random()?).unchecked(),
            None => Cephx::new(random()?).unchecked(),
        },
    };
    if config.secure_only && (!cephx.is_required || config.versions != Versions::Two) {
        return Err(Error::CannotEncrypt);
    }
    cephx.lifetimes = config.ticket_lifetimes;
    if config.secure_only {
        cephx.modes = vec![mode::SECURE];
    }
    let memory_limit = config.memory_limit.or(kept.and_then(Restored::life).map(|life| life.memory_limit));
    let memory_limit = memory_limit.unwrap_or(DEFAULT_MEMORY);
    let memory = memory_limit.saturating_mul(osds.len() as u64);
    Ok(Settings {
        fsid,
        mon: config.mon_addrs(),
        mgr: config.mgr_addrs(osds.len() as u16),
        osds,
        memory_limit,
        null_writes: config.null_writes,
        pools: config.pools.clone(),
        cephx: Some(cephx),
        compression: config.compression.clone(),
        registrable: config.zero_copy.registrable(usize::try_from(memory).unwrap_or(usize::MAX)),
    })
}

/// A cluster stays what it was, whatever is asked for.
fn agree<T: PartialEq + std::fmt::Display>(what: &str, is: T, wanted: Option<T>) -> Result<T, Error> {
    match wanted {
        Some(wanted) if wanted != is => {
            Err(DataError::Differs { found: format!("{what} {is}"), wanted: wanted.to_string() }.into())
        }
        _ => Ok(is),
    }
}

/// Opens the listeners, and the log.
fn begin(engine: AnyEngine, settings: Settings, data: Option<Data>) -> Result<(Pumped, Option<Disk>), Error> {
    let (directory, machine) = match data {
        Some(Data { directory, keeping }) => {
            (Some((directory, keeping.restored.log())), ClusterMachine::kept(settings, keeping))
        }
        None => (None, ClusterMachine::new(settings)),
    };
    let mut machine = machine;
    machine.limit_connections(onego_service::descriptors() / 2);
    let mut pump = Pump::new(engine, machine);
    let disk = directory.map(|(directory, log)| disk::start(directory, log, &pump.waker())).transpose()?;
    // The listeners are opened in the first turn.
    pump.turn(Wait::Poll).map_err(Error::Listen)?;
    match pump.machine_mut().failure() {
        Some(error) => Err(Error::Listen(error)),
        None => Ok((pump, disk)),
    }
}

/// Tells the machine what is durable, and the disk what is to be.
fn exchange(pump: &mut Pumped, disk: &Disk) -> Result<(), Error> {
    while let Some(done) = disk.result() {
        let now = pump.now();
        pump.machine_mut().done(now, done?);
    }
    while pump.machine().has_job()
        && let Some(job) = pump.machine_mut().next_job()
    {
        disk.submit(job);
    }
    Ok(())
}
