//! Mounts: discovery of a server's file system, and the state that its users share.

use super::config::Config;
use super::core::NfsCommand;
use super::error::Error;
use super::escaped::Escaped;
use super::reactor::Reactor;
use super::requests::Requests;
use super::resolve::resolve;
use futures_channel::oneshot;
use onego_nfs::client::{Call, CallFigures, CallsSnapshot, Error as CallError, Limits, Waiting, Way};
use onego_nfs::mount::{self, Export, MountStatus, Mounted};
use onego_nfs::portmap::{self, Getport, Mapping};
use onego_nfs::rpc::Procedure;
use onego_nfs::v3::{self, Fsinfo, FsinfoOk, Handle};
use onego_wire::LocalPort;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A mounted file system of a server. Cheap to clone; the connection ends when the last clone and file is dropped.
#[derive(Clone)]
pub struct Mount {
    pub(super) requests: Requests,
    pub(super) root: Handle,
    pub(super) facts: Arc<Facts>,
}

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) limits: Limits,
    /// Size of a READDIR, in bytes.
    pub(super) listing: u32,
    /// Set once the server has refused READDIRPLUS: directories are then listed by READDIR.
    pub(super) plain_listing: AtomicBool,
}

impl Mount {
    /// Mounts an export. A separate thread drives the connection; to avoid it use [`Reactor::mount`].
    pub async fn connect(config: &Config, export: impl AsRef<[u8]>) -> Result<Self, Error> {
        let requests = start(config).await?;
        Self::ready(requests, config, export.as_ref()).await
    }

    /// Mounts the export that contains a path, and returns the path within it. A separate thread drives the
    /// connection.
    pub async fn connect_path(config: &Config, path: impl AsRef<[u8]>) -> Result<(Self, Vec<u8>), Error> {
        let requests = start(config).await?;
        Self::find(requests, config, path.as_ref()).await
    }

    async fn ready(requests: Requests, config: &Config, export: &[u8]) -> Result<Self, Error> {
        let server = Server::find(&requests, config).await?;
        let root = server.mount(&requests, export).await?.map_err(|status| refused(export, status))?;
        server.open(requests, config, root).await
    }

    /// Mounts the export that contains a path, with a client that the caller drives.
    pub(crate) async fn find(
        requests: Requests,
        config: &Config,
        path: &[u8],
    ) -> Result<(Self, Vec<u8>), Error> {
        let server = Server::find(&requests, config).await?;
        let (root, rest) = server.mount_above(&requests, path).await?;
        Ok((server.open(requests, config, root).await?, rest))
    }

    #[cfg(feature = "block")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.requests.is_same(&other.requests)
    }

    /// Returns the handle of the mounted directory.
    pub fn root(&self) -> Handle {
        self.root
    }

    /// Returns what has held the client up for two seconds or more, and why. The client checks once a second; to
    /// receive changes use [`Config::on_waiting`].
    pub fn waiting(&self) -> Option<Waiting> {
        self.requests.report.get()
    }

    /// Returns this client's metrics: calls by kind with bytes, failures and latencies, and resent calls. Callable at
    /// any time; it neither waits nor costs the client's thread anything.
    pub fn metrics(&self) -> CallsSnapshot {
        self.requests.figures.snapshot()
    }

    /// Returns the same metrics as a source for a registry, which can read them even after the last handle on the
    /// client is dropped.
    pub fn figures(&self) -> CallFigures {
        self.requests.figures.clone()
    }

    /// Returns the limits of a READ and of a WRITE, in bytes.
    pub fn limits(&self) -> Limits {
        self.facts.limits
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount")
            .field("root", &self.root)
            .field("limits", &self.limits())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl Reactor {
    /// Mounts an export with a client that this thread drives.
    pub fn mount(config: &Config, export: impl AsRef<[u8]>) -> Result<(Self, Mount), Error> {
        let (mut reactor, requests) = Self::new(config)?;
        let mount = reactor.block_on(Mount::ready(requests, config, export.as_ref()))??;
        Ok((reactor, mount))
    }

    /// Mounts the export that contains a path with a client that this thread drives; also returns the path within the
    /// export.
    pub fn mount_path(config: &Config, path: impl AsRef<[u8]>) -> Result<(Self, Mount, Vec<u8>), Error> {
        let (mut reactor, requests) = Self::new(config)?;
        let (mount, path) = reactor.block_on(Mount::find(requests, config, path.as_ref()))??;
        Ok((reactor, mount, path))
    }
}

fn refused(path: &[u8], status: MountStatus) -> Error {
    Error::Mount { path: Escaped(path).to_string(), status }
}

async fn start(config: &Config) -> Result<Requests, Error> {
    let (started, start) = oneshot::channel();
    let config = config.clone();
    // The engine's ring belongs to its creating thread, so the reactor is created where it runs.
    std::thread::Builder::new()
        .name("onego-nfs".into())
        .spawn(move || match Reactor::new(&config) {
            Ok((reactor, requests)) => {
                // If the caller is gone, this drops the handle and the reactor ends at once.
                drop(started.send(Ok(requests)));
                reactor.run(|| ());
            }
            Err(error) => drop(started.send(Err(error))),
        })
        .map_err(|source| Error::Io { what: "starting the reactor's thread", source })?;
    start.await.map_err(|_| Error::Closed)?
}

struct Server {
    host: String,
    nfs: SocketAddr,
    mount: SocketAddr,
    local: LocalPort,
    patience: Duration,
}

impl Server {
    async fn find(requests: &Requests, config: &Config) -> Result<Self, Error> {
        let (addr, patience) = (resolve(requests, &config.host).await?, config.connect_timeout);
        let ask = async |given: Option<u16>, program, version, name| match given {
            Some(port) => Ok(Some(port)),
            None => port(requests, addr, patience, program, version, name).await,
        };
        let nfs_port = config.rdma.as_ref().map(|rdma| rdma.port).or(config.nfs_port);
        let nfs = ask(nfs_port, v3::PROGRAM, v3::VERSION, "NFS server of version 3").await?;
        let nfs = nfs.unwrap_or(v3::PORT);
        let mount = ask(config.mount_port, mount::PROGRAM, mount::VERSION, "MOUNT server of version 3");
        let mount = mount.await?.unwrap_or(nfs);
        let [nfs, mount] = [nfs, mount].map(|port| SocketAddr::new(addr, port));
        Ok(Self { host: config.host.clone(), nfs, mount, local: config.local_port, patience })
    }

    fn asking(&self, what: &str) -> String {
        format!("asking {} for {what}", self.host)
    }

    async fn ask<P: Procedure>(
        &self,
        requests: &Requests,
        patience: Duration,
        args: &P::Args,
    ) -> Result<P::Results, CallError> {
        requests.call_to::<P>(self.mount, self.local, patience, args).await
    }

    async fn mount(&self, requests: &Requests, path: &[u8]) -> Result<Result<Handle, MountStatus>, Error> {
        let args = mount::Path(path.to_vec());
        let results = self.ask::<mount::Mnt>(requests, self.patience, &args).await;
        let what = || self.asking(&format!("the root of {}", Escaped(path)));
        Ok(results.map_err(Error::call(what))?.map(|Mounted { root, .. }| root))
    }

    /// Mounts the export that contains a path; returns its root and the rest of the path.
    async fn mount_above(&self, requests: &Requests, path: &[u8]) -> Result<(Handle, Vec<u8>), Error> {
        let path = &*with_single_slashes(path);
        let listed = self.exports_above(requests, path).await;
        let mut refusal = None;
        for dir in &listed {
            match self.mount(requests, dir).await? {
                Ok(root) => return Ok((root, below(path, dir).unwrap_or_default().to_vec())),
                Err(status) => drop(refusal.get_or_insert(refused(dir, status))),
            }
        }
        // The shortest path that can be mounted is the export.
        let ends =
            (1..path.len()).filter(|at| path[*at] == b'/' && path[at - 1] != b'/').map(|end| &path[..end]);
        for dir in
            [&b"/"[..]].into_iter().chain(ends).filter(|dir| !listed.iter().any(|listed| listed == dir))
        {
            if let Ok(root) = self.mount(requests, dir).await? {
                return Ok((root, below(path, dir).unwrap_or_default().to_vec()));
            }
        }
        match self.mount(requests, path).await? {
            Ok(root) => Ok((root, Vec::new())),
            Err(status) => Err(refusal.unwrap_or_else(|| refused(path, status))),
        }
    }

    /// Lists the exports that contain a path, the longest first. EXPORT is informational (RFC 1813, section 5.2.5):
    /// servers need not answer it, and may list exports that this client cannot mount.
    async fn exports_above(&self, requests: &Requests, path: &[u8]) -> Vec<Vec<u8>> {
        let exports = self.ask::<Export>(requests, self.patience.min(EXPORT_PATIENCE), &()).await;
        let exports = exports.inspect_err(
            |error| tracing::debug!(%error, host = self.host, "the server does not list its exports"),
        );
        let exports = exports.map_or_else(|_| Vec::new(), |exports| exports.0);
        let mut above: Vec<_> = exports.into_iter().map(|export| export.path.0).collect();
        above.retain(|export| below(path, export).is_some());
        above.sort_by_key(|export| std::cmp::Reverse(export.len()));
        above
    }

    async fn open(self, requests: Requests, config: &Config, root: Handle) -> Result<Mount, Error> {
        let what = || self.asking("its limits");
        let way = config.rdma.as_ref().map_or(Ok(Way::Tcp), |rdma| rdma.way(&requests.pool));
        let (addr, local, way) = (self.nfs, self.local, way?);
        let connect = NfsCommand::Connect { addr, local, way, connections: config.connections };
        requests.send(connect).await?;
        let call = Call { soft: true, ..Call::new::<Fsinfo>(&root) };
        let patience = Some(self.patience);
        let asked = requests.ask::<Fsinfo>(|done| NfsCommand::Call { call, patience, done });
        let info = asked.await.map_err(Error::call(what))?;
        let info = info.map_err(|failed| Error::failed(what, failed.status))?;
        let limits = limits(config, &info);
        requests.send(NfsCommand::Limits(limits)).await?;
        let listing = info.readdir_preferred.clamp(LISTING_MIN, LISTING_MAX);
        let facts = Facts { limits, listing, plain_listing: AtomicBool::new(false) };
        Ok(Mount { requests, root, facts: Arc::new(facts) })
    }
}

/// Time for a server to list its exports; afterwards they are guessed.
const EXPORT_PATIENCE: Duration = Duration::from_secs(3);

/// Bounds on the size of a listing, in bytes: below, it holds few names; above, replies become too large.
const LISTING_MIN: u32 = 4 << 10;
const LISTING_MAX: u32 = 64 << 10;

/// Largest READ or WRITE, in bytes: more gains nothing, and its reply is within the client's bound.
const IO_MAX: usize = 1 << 20;

/// Returns the sizes of calls: those that the user configured or the server prefers, within the limits of both.
fn limits(config: &Config, info: &FsinfoOk) -> Limits {
    let limit = |wanted: Option<usize>, preferred: u32, max: u32| {
        // A server that reports 0 states no limit.
        let max = if max == 0 { 8 << 10 } else { max as usize }.min(IO_MAX);
        let preferred = if preferred == 0 { max } else { preferred as usize };
        wanted.unwrap_or(preferred).clamp(1, max)
    };
    Limits {
        read: limit(config.read_size, info.read_preferred, info.read_max),
        write: limit(config.write_size, info.write_preferred, info.write_max),
    }
}

/// Queries the port of a program; `None` if there is no port mapper.
async fn port(
    requests: &Requests,
    addr: IpAddr,
    patience: Duration,
    program: u32,
    version: u32,
    name: &'static str,
) -> Result<Option<u16>, Error> {
    let mapping = Mapping { program, version, protocol: portmap::TCP, port: 0 };
    let mapper = SocketAddr::new(addr, portmap::PORT);
    let missing = || Error::NoProgram { host: addr.to_string(), program: name };
    match requests.call_to::<Getport>(mapper, LocalPort::Any, patience, &mapping).await {
        Ok(port) => u16::try_from(port).ok().filter(|port| *port > 0).map(Some).ok_or_else(missing),
        Err(CallError::Unreachable { .. }) => Ok(None),
        Err(error) => Err(Error::call(|| format!("querying the port mapper of {addr}"))(error)),
    }
}

/// Collapses repeated slashes, because exports are compared by their text.
fn with_single_slashes(path: &[u8]) -> Vec<u8> {
    let mut single = path.to_vec();
    single.dedup_by(|next, last| (*next, *last) == (b'/', b'/'));
    single
}

/// Returns the rest of a path below a directory that contains it.
fn below<'a>(path: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    let without_slashes = dir.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let rest = path.strip_prefix(&dir[..without_slashes])?;
    let name_at = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
    (rest.is_empty() || name_at > 0).then(|| &rest[name_at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_a_directory_only_by_whole_names() {
        assert_eq!(below(b"/srv/a/b", b"/srv"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/srv", b"/srv/"), Some(&b""[..]));
        assert_eq!(below(b"/srvx", b"/srv"), None);
        assert_eq!(below(b"/a/b", b"/"), Some(&b"a/b"[..]));
        assert_eq!(below(&with_single_slashes(b"//srv//a///"), b"/srv"), Some(&b"a/"[..]));
    }
}
