//! `onego bench nfs`.

use super::loads::Loads;
use super::outputs::Output;
use super::parts::{NO_CLUSTER, seed};
use super::report::{judge, printer, rows, title};
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::metrics::MetricsOptions;
use crate::output;
use crate::process::this_program;
use onego::nfs::{Config, Rdma, Reactor};
use onego::text;
use onego_bench::embedded::EmbeddedFiles;
use onego_bench::nfs::Bed;
use onego_bench::report::progress::Progress;
use onego_bench::report::{picture, table};
use onego_bench::row::Row;

pub(super) const EXAMPLES: &str = "\
Examples:
  onego bench nfs
  onego bench nfs --transport tcp,rdma-1k,rdma --no-floor
  onego bench nfs --transport rdma-1k,rdma --rw randread --block-size 4k --jobs 12
  onego bench nfs --server nfs://server/export --rw read,write --block-size 1m --io-depth 8 --json rows.json

\"write\" begins with an empty file, and \"rewrite\" and \"reread\" go over one that is there, as iozone has it. What is
written is committed at the end of each pass. CPU is that of one operation, in microseconds, in this process and in the
server's. Beside it is what bare sockets need that move the same bytes at the same depth.";

/// Loads as iozone has them, unless others are asked for.
#[derive(clap::Args)]
#[command(
    mut_arg("rw", |arg| arg
        .help("Patterns: write, rewrite, read, reread, randread, randwrite, randrw")
        .default_value("write,rewrite,read,reread")),
    mut_arg("block_size", |arg| arg
        .visible_alias("record-size")
        .default_value("1k,2k,4k,8k,16k,32k,64k")),
    mut_arg("io_depth", |arg| arg.default_value("1").value_parser(clap::value_parser!(u32).range(1..=4096))),
    mut_arg("seconds", |arg| arg.default_value("2")),
    mut_arg("size", |arg| arg.default_value("64M")),
)]
pub(crate) struct Options {
    /// "embedded" starts a server of files in memory; or the URL of an export
    #[arg(long, value_name = "embedded|URL", default_value = "embedded")]
    server: String,
    /// The ways to it: tcp; rdma-1k, with messages of 1 KiB and without remote invalidation; rdma, with messages of 4 KiB
    /// and with it [default: as the URL says]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transport: Vec<Transport>,
    /// The process of that server, if it is on this machine: its CPU time is counted, too
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    #[command(flatten)]
    loads: Loads,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    output: Output,
}

/// A way to the server.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Transport {
    Tcp,
    #[value(name = "rdma-1k")]
    SmallRdma,
    Rdma,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::SmallRdma => "rdma-1k",
            Self::Rdma => "rdma",
        }
    }

    /// The same server by this way; `port` is where it is over RDMA, if that is known.
    fn configure(self, config: Config, port: Option<u16>) -> Config {
        let asked: Rdma = config.rdma.clone().unwrap_or_default();
        let port = port.unwrap_or(asked.port);
        let rdma = |inline, remote_invalidation| {
            let mut rdma = asked.clone().with_port(port).with_inline(inline);
            rdma.remote_invalidation = remote_invalidation;
            Some(rdma)
        };
        let mut config = config;
        config.rdma = match self {
            Self::Tcp => None,
            Self::SmallRdma => rdma(1 << 10, false),
            Self::Rdma => rdma(4 << 10, true),
        };
        config
    }
}

impl Options {
    /// The ways to the server that are asked for, by name; `port` is where it is over RDMA, if that is known.
    fn ways(&self, config: Config, port: Option<u16>) -> Vec<(&'static str, Config)> {
        if self.transport.is_empty() {
            let name = if config.rdma.is_some() { "rdma" } else { "tcp" };
            return vec![(name, config)];
        }
        let way = |transport: &Transport| (transport.name(), transport.configure(config.clone(), port));
        self.transport.iter().map(way).collect()
    }
}

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    let plan = options.loads.plan(true)?;
    access.refuse_cluster(NO_CLUSTER)?;
    let outputs = options.output.open()?;
    let embedded =
        (options.server == "embedded").then(|| start_embedded(access, options.loads.size)).transpose()?;
    let url = embedded.as_ref().map_or(options.server.as_str(), EmbeddedFiles::url);
    let server = embedded.as_ref().map(EmbeddedFiles::pid).or(options.server_pid);
    let (config, dir) = Config::from_url(url)?;
    let config = access.complete_nfs(config)?;
    let end = dir.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let file = [&dir[..end], format!("/onego-bench-{:x}", seed()).as_bytes()].concat();
    let path = text::from_bytes(&file);
    let what = match &embedded {
        Some(_) => "an embedded server of files in memory".to_owned(),
        None => format!("{url}, in a file called {path}"),
    };
    output::lines([format!("measuring {what}")])?;
    let metrics = options.metrics.start()?;
    metrics.line().into_iter().for_each(|line| interrupt::say(&line));
    let mut measured = Vec::new();
    for (name, mut config) in options.ways(config, embedded.as_ref().map(EmbeddedFiles::rdma_port)) {
        // Until the server answers nothing is left behind, and a signal ends the program at once.
        drop(Reactor::mount_path(&config, &file)?);
        let left = embedded.is_none().then(|| format!("{path} may be left behind on the server"));
        let _unfinished = Unfinished::winding_down(|| left);
        config.slow = options.metrics.slow();
        let bed = Bed::prepare(&config, &file, name, options.loads.size, server, metrics.registry())?;
        metrics.ready();
        let progress = Progress::of_time(plan.total(), !options.output.no_progress);
        let some = bed.measure(&plan, &progress, interrupt::stop(), printer(&progress, plan.floor.is_some()));
        progress.finish();
        if let Err(error) = bed.remove() {
            tracing::warn!(%error, "{path} is left behind");
        }
        measured.extend(some?);
    }
    if options.loads.io_depth == 1 && options.loads.jobs == 1 {
        let ours: Vec<Row> = measured.iter().map(|measured| measured.row.clone()).collect();
        output::lines(table::by_record(&ours))?;
    }
    let rows = rows(&measured);
    let title = title(&format!("onego bench nfs, {what}"), &rows);
    outputs.write(&rows, || picture::svg(&title, &rows))?;
    judge(&measured, options.loads.verify)
}

/// A server in a process of its own, with room for a file of `file` bytes.
fn start_embedded(access: &Access, file: u64) -> Result<EmbeddedFiles, Failure> {
    // Files are not as tight as their data, and for a moment an old and a new state of a block are there.
    let room = file.saturating_mul(2).saturating_add(256 << 20).to_string();
    let options = [vec!["--size".to_owned(), room], access.movement()].concat();
    Ok(EmbeddedFiles::start(&this_program()?, &options)?)
}
