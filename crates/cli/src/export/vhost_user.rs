//! `onego export vhost-user`: a disk of a virtual machine.

use super::limits::{LimitOptions, Limits};
use super::listen::Listening;
use super::reactor::{self, ListeningExport};
use crate::access::Access;
use crate::device::EncryptionArgs;
use crate::device::{FileArgs, Opener, Prepared, SOURCES, Source};
use crate::failure::Failure;
use crate::metrics::{Metrics, MetricsOptions, ReactorMetrics};
use crate::output::{self, Format};
use crate::partial_import::IncompleteArgs;
use crate::process::{self, die_with_parent};
use onego::EngineKind;
use onego::block::Host;
use onego_bench::embedded::READY;
use onego_export::vhost_user::{Disk, DiskServer, QUEUES_MAX};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;

pub(crate) fn examples() -> String {
    format!("{EXAMPLES}\n\nSources:\n{SOURCES}\n{NOTES}")
}

const EXAMPLES: &str = "\
Examples:
  onego -c /tmp/onego/ceph.conf export vhost-user rbd:rbd/disk --socket /run/disk.sock
  onego export vhost-user /srv/disk.img --socket /run/disk.sock --read-only";

const NOTES: &str = "
A virtual machine whose disk it is:
  qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=memory,size=1G,share=on \\
    -machine q35,accel=kvm,memory-backend=memory \\
    -chardev socket,id=disk,path=/run/disk.sock,reconnect=1 -device vhost-user-blk-pci,chardev=disk ...

The machine waits while no server runs, and goes on with the next one on the same socket: nothing is lost.

Whoever can open the socket can read and write the device.

A line that starts with \"ready:\" says that it serves.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to serve
    #[arg(value_name = "SOURCE", value_parser = Source::parser())]
    source: Source,
    /// The Unix socket to listen on, which is made, and removed at the end
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The most queues that the machine may use
    #[arg(long, value_name = "COUNT", default_value_t = QUEUES_MAX,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(QUEUES_MAX)))]
    queues: u16,
    /// The pool of an image that names none
    #[arg(short, long, value_name = "POOL")]
    pool: Option<String>,
    /// Let the machine change nothing
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    encryption: EncryptionArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    incomplete: IncompleteArgs,
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

impl ListeningExport for DiskServer {
    fn failure(&mut self) -> Option<io::Error> {
        self.failure()
    }
}

pub(crate) fn run(access: &Access, options: Options) -> Result<(), Failure> {
    if options.die_with_parent {
        die_with_parent()?;
    }
    if access.engine == EngineKind::Uring {
        let why = "a virtual machine passes descriptors of files, which the engine uring does not take: use epoll or uepoll";
        return Err(Failure::Usage(why.into()));
    }
    let cluster = options.source.is_image().then(|| options.metrics.config(access)).transpose()?;
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let metrics = options.metrics.start()?;
    let listening = Listening::unix(&options.socket)?;
    let prepared = Prepared::new(access, &options.source, options.read_only, options.files)?;
    let prepared = prepared.with_encryption(&options.encryption)?.with_incomplete(options.incomplete);
    let (engine, zero_copy, spin) = (access.engine, access.zero_copy()?, access.spin);
    let socket = listening.socket()?;
    let Options { pool, limits, read_only, queues, .. } = &options;
    let read_only = *read_only || options.source.is_snapshot();
    let (pool, limits, queues) = (pool.clone(), *limits, *queues);
    let serial = options.source.export_name(options.pool.as_deref());
    let slow = options.metrics.slow();
    let begin = move || {
        let mut host = Host::open(engine, zero_copy, spin, |_| DiskServer::default())?;
        let device = Opener::new(cluster.as_ref(), pool.as_deref()).open(&mut host, &prepared, read_only)?;
        let disk = Disk { device: Limits::new(limits).bound(device), read_only, serial, queues };
        slow.into_iter().for_each(|slow| host.export().0.set_slow(slow));
        host.export().0.serve(disk, socket)?;
        Ok(host)
    };
    let (failed, failure) = channel();
    let reactor = reactor::start(begin, ReactorMetrics::new(metrics.registry(), &options.source), failed)?;
    process::is_up();
    metrics.ready();
    announce(&options, &metrics)?;
    process::serve((metrics.until_dropped(), reactor, listening, metrics), Some(failure), signals)
}

/// Says what is served where.
fn announce(options: &Options, metrics: &Metrics) -> Result<(), Failure> {
    let Options { source, socket, queues, format, .. } = options;
    let socket = socket.display();
    match format {
        Format::Json => output::json(&json!({
            "socket": socket.to_string(),
            "queues": queues,
            "metrics": metrics.url(),
        })),
        Format::Plain => {
            let served = [format!("{source}: {socket}")].into_iter().chain(metrics.line());
            output::lines(served.chain([format!("{READY} {socket}")]))
        }
    }
}
