//! `onego export nbd`: a server of NBD.

use super::reactor::{self, Plan, Running};
use crate::access::Access;
use crate::device::{Prepared, SOURCES, Source};
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::process::{self, die_with_parent};
use onego_bench::embedded::READY;
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

pub(crate) fn examples() -> String {
    format!("{EXAMPLES}\n\nSources:\n{SOURCES}\n{NOTES}")
}

const EXAMPLES: &str = "\
Examples:
  onego -c /tmp/onego/ceph.conf export nbd rbd:rbd/disk
  onego export nbd rbd:disk rbd:other --listen 0.0.0.0:10809 --read-only
  onego export nbd /srv/disk.img --socket /run/onego.sock
  onego export nbd mem:1G --listen 127.0.0.1:0 --format json";

const NOTES: &str = "\
Clients name an image POOL/[NAMESPACE/]IMAGE, a file by its name without folders, and what has no name by its kind, such as
mem. A single source is what clients get that name none.

Clients:
  nbdinfo nbd://127.0.0.1/rbd/disk
  qemu-img convert -f raw -O raw ubuntu.img nbd://127.0.0.1/rbd/disk
  nbd-client 127.0.0.1 /dev/nbd0 -name rbd/disk

Everybody who reaches the address can read and write the devices: there are no users in this protocol.

A line that starts with \"ready:\" says that it serves, and under which URI.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to serve
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<Source>,
    /// Where to listen; port 0: any
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10809")]
    listen: SocketAddr,
    /// Listen on a Unix socket instead, which is made, and removed at the end
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// The pool of images that name none
    #[arg(short, long, value_name = "POOL")]
    pool: Option<String>,
    /// Let nobody change anything
    #[arg(long)]
    read_only: bool,
    /// Threads that serve, each with its own clients of the cluster [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64), default_value_t = 1,
        hide_default_value = true)]
    reactors: u8,
    /// How to say that it serves
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// End when the program that started this one ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

pub(crate) fn run(access: &Access, options: Options) -> Result<(), Failure> {
    if options.die_with_parent {
        die_with_parent()?;
    }
    let is_memory = |source: &Source| matches!(source, Source::Memory(_));
    if options.reactors > 1 && options.sources.iter().any(is_memory) {
        let why = "memory belongs to one thread, so mem:SIZE cannot be served by several reactors";
        return Err(Failure::Usage(why.into()));
    }
    let has_images = options.sources.iter().any(|source| matches!(source, Source::Image(_)));
    let cluster = has_images.then(|| access.config()).transpose()?;
    if !options.listen.ip().is_loopback() && options.socket.is_none() {
        let what = if options.read_only { "read" } else { "read and write" };
        tracing::warn!("everybody who reaches {} can {what} these devices", options.listen);
    }
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let place = Place::open(&options)?;
    let prepared = |source: &Source| Ok((source.clone(), Prepared::new(access, source, options.read_only)?));
    let sources = options.sources.iter().map(prepared).collect::<Result<_, Failure>>()?;
    let plan = Plan {
        sources,
        pool: options.pool.clone(),
        read_only: options.read_only,
        cluster,
        engine: access.engine,
        zero_copy: access.zero_copy()?,
        spin: access.spin,
    };
    let (failed, failure) = channel();
    let reactors = (0..options.reactors)
        .map(|_| reactor::start(plan.clone(), place.socket()?, failed.clone()))
        .collect::<Result<Vec<Running>, Failure>>()?;
    drop(failed);
    announce(&options, &place)?;
    process::serve((reactors, place), Some(failure), signals)
}

/// Says what is served where.
fn announce(options: &Options, place: &Place) -> Result<(), Failure> {
    let pool = options.pool.as_deref();
    let uris: Vec<_> = options.sources.iter().map(|source| place.uri(&source.export_name(pool))).collect();
    match options.format {
        Format::Json => output::json(&json!({ "uris": uris, "reactors": options.reactors })),
        Format::Plain => {
            let lines = options.sources.iter().zip(&uris).map(|(source, uri)| format!("{source}: {uri}"));
            let ready = uris.first().map(|uri| format!("{READY} {uri}"));
            output::lines(lines.chain(ready))
        }
    }
}

/// A listening socket.
struct Place {
    socket: OwnedFd,
    at: Address,
}

enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Place {
    fn open(options: &Options) -> Result<Self, Failure> {
        match &options.socket {
            Some(path) => Self::unix(path),
            None => {
                let failed = Failure::io("listening (is another server there? --listen takes another port)");
                let listener = TcpListener::bind(options.listen).map_err(failed)?;
                let addr = listener.local_addr().map_err(Failure::io("listening"))?;
                Ok(Self { socket: listener.into(), at: Address::Tcp(addr) })
            }
        }
    }

    /// A Unix socket. One that a server has left is replaced; one that is served is not.
    fn unix(path: &Path) -> Result<Self, Failure> {
        if UnixStream::connect(path).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        {
            // If that fails, to bind fails, too.
            let _ = std::fs::remove_file(path);
        }
        let failed = Failure::io("listening on the Unix socket (is another server there?)");
        let listener = UnixListener::bind(path).map_err(failed)?;
        Ok(Self { socket: listener.into(), at: Address::Unix(path.to_owned()) })
    }

    /// The socket for one more reactor: the system shares the clients out.
    fn socket(&self) -> Result<OwnedFd, Failure> {
        self.socket.try_clone().map_err(Failure::io("sharing the listening socket"))
    }

    fn uri(&self, export: &str) -> String {
        match &self.at {
            Address::Tcp(addr) => format!("nbd://{addr}/{export}"),
            Address::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.at {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}
