//! `onego export nbd`: a server of NBD.

use super::limits::LimitOptions;
use super::listen::{Address, Listening};
use super::reactor::{self, Plan, Running};
use super::served::Served;
use super::tls::TlsOptions;
use crate::access::Access;
use crate::device::EncryptionArgs;
use crate::device::{FileArgs, Prepared, SOURCES};
use crate::failure::Failure;
use crate::listen::Listen;
use crate::metrics::{Metrics, MetricsOptions, ReactorMetrics};
use crate::output::{self, Format};
use crate::partial_import::IncompleteArgs;
use crate::process::{self, die_with_parent};
use onego_bench::embedded::READY;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// Where it listens if nothing else is said.
const DEFAULT_ADDRESS: Listen = Listen { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: None };

/// The port of NBD (nbd proto.md, 'Introduction').
const DEFAULT_PORT: u16 = 10809;

/// Most threads that serve.
const REACTORS_MAX: u8 = 64;

pub(crate) fn examples() -> String {
    format!("{EXAMPLES}\n\nSources:\n{SOURCES}\n{NOTES}")
}

const EXAMPLES: &str = "\
Examples:
  onego -c /tmp/onego/ceph.conf export nbd rbd:rbd/disk
  onego export nbd rbd:disk rbd:other --listen 0.0.0.0:10809 --read-only
  onego export nbd /srv/disk.img --socket /run/onego.sock
  onego export nbd mem:1G --listen 127.0.0.1:0 --format json
  onego export nbd rbd:disk --listen 0.0.0.0:10809 --tls-cert server.pem --tls-key server.key --tls-ca clients.pem
  onego export nbd rbd:pool/ --limit-total-bps 1G
  onego export nbd rbd:disk --limit-iops 1000,5000 --limit-bps 100M
  systemd-socket-activate -l 10809 onego export nbd rbd:disk";

const NOTES: &str = "\
  rbd:POOL/[NAMESPACE/]         all images that the pool has when the server starts
Clients name an image POOL/[NAMESPACE/]IMAGE, a file by its name without folders, and what has no name by its kind, such as
mem. A single source is what clients get that name none.

Clients:
  nbdinfo nbd://127.0.0.1/rbd/disk
  qemu-img convert -f raw -O raw ubuntu.img nbd://127.0.0.1/rbd/disk
  nbd-client 127.0.0.1 /dev/nbd0 -name rbd/disk

Everybody who reaches the address can read and write the devices: there are no users in this protocol. With --tls-cert and
--tls-ca, everybody can who has a certificate of that authority, and nobody else.

A line that starts with \"ready:\" says that it serves, and under which URI.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to serve
    #[arg(value_name = "SOURCE", required = true, value_parser = Served::parser())]
    sources: Vec<Served>,
    /// Where to listen; port 0: any, no port: 10809 [default: 127.0.0.1, or the sockets of the service manager]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Option<Listen>,
    /// Listen on a Unix socket instead, which is made, and removed at the end
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// The pool of images that name none
    #[arg(short, long, value_name = "POOL")]
    pool: Option<String>,
    /// Let nobody change anything
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    encryption: EncryptionArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    incomplete: IncompleteArgs,
    /// Threads that serve, each with its own clients of the cluster [default: one for each processor; 1 with mem:SIZE and with
    /// limits, which belong to one thread, with nbd:, whose server may take one client alone, and with rbd:, whose lock one client
    /// has]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=i64::from(REACTORS_MAX)))]
    reactors: Option<u8>,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
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
    let reactors = reactors(&options)?;
    let has_images = options.sources.iter().any(Served::is_of_cluster);
    let cluster = has_images.then(|| options.metrics.config(access)).transpose()?;
    let tls = options.tls.load()?;
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let metrics = options.metrics.start()?;
    let listening = listen(&options)?;
    if let Some(public) = listening.iter().find(|at| at.is_public() && !options.tls.knows_clients()) {
        let what = if options.read_only { "read" } else { "read and write" };
        let how = "--tls-cert and --tls-ca let in only clients that have a certificate";
        tracing::warn!("everybody who reaches {} can {what} these devices: {how}", public.address());
    }
    let (mut sources, mut pools) = (Vec::new(), Vec::new());
    for served in &options.sources {
        match served {
            Served::Pool(place) => pools.push(place.clone()),
            Served::Device(source) => {
                let prepared = Prepared::new(access, source, options.read_only, options.files)?;
                let prepared = prepared.with_incomplete(options.incomplete);
                sources.push((source.clone(), prepared.with_encryption(&options.encryption)?));
            }
        }
    }
    let plan = Plan {
        sources,
        pools,
        incomplete: options.incomplete,
        pool: options.pool.clone(),
        read_only: options.read_only,
        tls,
        limits: options.limits,
        cluster,
        engine: access.engine,
        zero_copy: access.zero_copy()?,
        spin: access.spin,
        slow: options.metrics.slow(),
    };
    let (failed, failure) = channel();
    let running = (0..reactors)
        .map(|_| {
            let sockets = listening.iter().map(Listening::socket).collect::<Result<_, _>>()?;
            let plan = plan.clone();
            let told = ReactorMetrics::new(metrics.registry(), "");
            reactor::start(move || reactor::begin(&plan, sockets), told, failed.clone())
        })
        .collect::<Result<Vec<Running>, Failure>>()?;
    drop(failed);
    process::is_up();
    metrics.ready();
    announce(&options, &listening, reactors, &metrics)?;
    process::serve((metrics.until_dropped(), running, listening, metrics), Some(failure), signals)
}

/// Threads that serve.
fn reactors(options: &Options) -> Result<u8, Failure> {
    let alone = if options.sources.iter().any(Served::is_memory) {
        Some("memory belongs to one thread, so mem:SIZE cannot be served by several reactors")
    } else if options.limits.is_some() {
        Some("limits count on one thread, so they cannot be shared by several reactors")
    } else {
        None
    };
    match (alone, options.reactors) {
        (Some(why), Some(2..)) => Err(Failure::Usage(why.into())),
        (_, Some(count)) => Ok(count),
        (None, None) if options.sources.iter().all(Served::takes_many_threads) => {
            Ok(process::processors().min(REACTORS_MAX.into()) as u8)
        }
        (_, None) => Ok(1),
    }
}

/// The sockets of the service manager, or one that is asked for.
fn listen(options: &Options) -> Result<Vec<Listening>, Failure> {
    let passed = Listening::passed()?;
    if !passed.is_empty() {
        if options.listen.is_some() || options.socket.is_some() {
            let why = "the service manager has made the sockets: leave out --listen and --socket";
            return Err(Failure::Usage(why.into()));
        }
        return Ok(passed);
    }
    let one = match &options.socket {
        Some(path) => Listening::unix(path)?,
        None => Listening::tcp(options.listen.unwrap_or(DEFAULT_ADDRESS).with_default_port(DEFAULT_PORT))?,
    };
    Ok(vec![one])
}

/// Says what is served where.
fn announce(
    options: &Options,
    listening: &[Listening],
    reactors: u8,
    metrics: &Metrics,
) -> Result<(), Failure> {
    let pool = options.pool.as_deref();
    // A pool's images are listed by the server.
    let name = |served: &Served| served.export_name(pool).unwrap_or_default();
    let names: Vec<_> = options.sources.iter().map(|served| (served, name(served))).collect();
    let secure = options.tls.is_required();
    let at_all = |name: &str| listening.iter().map(|at| uri(at.address(), secure, name)).collect::<Vec<_>>();
    let uris: Vec<_> = names.iter().flat_map(|(_, name)| at_all(name)).collect();
    match options.format {
        Format::Json => {
            output::json(&json!({ "uris": uris, "reactors": reactors, "metrics": metrics.url() }))
        }
        Format::Plain => {
            let served = |(source, name): &(&Served, String)| {
                at_all(name).into_iter().map(|uri| format!("{source}: {uri}")).collect::<Vec<_>>()
            };
            let ready = uris.first().map(|uri| format!("{READY} {uri}"));
            output::lines(names.iter().flat_map(served).chain(metrics.line()).chain(ready))
        }
    }
}

/// What clients call an export there (nbd uri.md).
fn uri(at: &Address, secure: bool, export: &str) -> String {
    let scheme = if secure { "nbds" } else { "nbd" };
    match at {
        Address::Tcp(addr) => format!("{scheme}://{addr}/{export}"),
        Address::Unix(path) => format!("{scheme}+unix:///{export}?socket={}", path.display()),
    }
}
