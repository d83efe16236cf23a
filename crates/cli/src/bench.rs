//! `onego bench`.

mod loads;
mod msgr;
mod nfs;

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::output;
use crate::process::{die_with_parent, this_program};
use crate::spec::DEFAULT_POOL;
use crate::zc;
use loads::Loads;
use onego::ceph::Config;
use onego_bench::embedded::EmbeddedCluster;
use onego_bench::load::{Measured, Plan};
use onego_bench::peer::Peer;
use onego_bench::progress::Progress;
use onego_bench::rbd::Bed;
use onego_bench::row::Row;
use onego_bench::{floor, picture, table};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Measure loads on an image, CPU included
    #[command(after_help = RBD_EXAMPLES)]
    Rbd(RbdOptions),
    /// Measure reads and writes of a file on an NFS server, CPU included
    #[command(after_help = nfs::EXAMPLES)]
    Nfs(nfs::Options),
    /// Measure sends that copy and sends that do not: UDP to a sink, TCP over loopback and veth
    #[command(after_help = zc::EXAMPLES)]
    Zc(zc::Options),
    /// The receiving half of the measurement of sends
    #[command(hide = true)]
    ZcReceiver {
        /// Where to listen
        addr: std::net::IpAddr,
    },
    /// Measure the messenger alone, with no storage behind it
    #[command(after_help = msgr::EXAMPLES)]
    Msgr(msgr::Options),
    /// The serving half of the measurement of bare sockets
    #[command(hide = true)]
    FloorServer {
        /// How many clients to serve
        clients: u32,
        /// Connections of each
        connections: u32,
    },
    /// The serving half of the measurement of the messenger
    #[command(hide = true)]
    MsgrServer(msgr::ServerOptions),
}

const RBD_EXAMPLES: &str = "\
Examples:
  onego bench rbd --rw randread,randwrite --block-size 4k,64k,1m --io-depth 128
  onego bench rbd --cluster /etc/ceph/ceph.conf --rw randrw --verify --seconds 10 --json rows.json

CPU is that of one I/O, in microseconds, in this process and in the cluster's. Beside it is what bare
sockets need that move the same bytes at the same depth.";

#[derive(clap::Args)]
pub(crate) struct RbdOptions {
    /// "embedded" starts a cluster of its own; or the configuration of a cluster [default: what --conf or --mon-host names,
    /// or embedded]
    #[arg(long, value_name = "embedded|CONF")]
    cluster: Option<Target>,
    #[command(flatten)]
    loads: Loads,
    /// The pool of the image
    #[arg(short, long, value_name = "POOL", default_value = DEFAULT_POOL)]
    pool: String,
    /// The embedded cluster acknowledges writes and forgets them
    #[arg(long, conflicts_with = "verify")]
    null_writes: bool,
    #[command(flatten)]
    output: Output,
}

/// Where figures go, beside the tables.
#[derive(clap::Args)]
struct Output {
    /// Write every measurement to a file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw IOPS, bandwidth and CPU by block size
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

impl Output {
    fn open(&self) -> Result<Outputs, Failure> {
        Outputs::open(self.json.as_deref(), self.svg.as_deref())
    }
}

/// The files that figures go to. They are opened before anything is measured, so that nothing is measured in vain.
pub(crate) struct Outputs {
    json: Option<OutputFile>,
    svg: Option<OutputFile>,
}

impl Outputs {
    pub(crate) fn open(json: Option<&Path>, svg: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self {
            json: json.map(OutputFile::open).transpose()?,
            svg: svg.map(OutputFile::open).transpose()?,
        })
    }

    /// Writes one JSON object a row and line, and the picture.
    pub(crate) fn write<R: serde::Serialize>(
        self,
        rows: &[R],
        picture: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if let Some(file) = self.json {
            let lines: Result<Vec<_>, _> = rows.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| Failure::file(&file.path)(error.into()))?;
            file.write(&(lines.join("\n") + "\n"))?;
        }
        self.svg.map_or(Ok(()), |file| file.write(&picture()))
    }
}

/// A file that is written later.
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
}

impl OutputFile {
    /// Opens a file. What is in it stays until it is written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(Failure::file(path))? })
    }

    pub(crate) fn write(mut self, content: &str) -> Result<(), Failure> {
        let Self { path, file } = &mut self;
        // Only a regular file has anything to be cut off.
        let is_regular = file.metadata().is_ok_and(|about| about.is_file());
        let emptied = if is_regular { file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| file.write_all(content.as_bytes())).map_err(Failure::file(path))
    }
}

/// A cluster to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Embedded,
    Conf(PathBuf),
}

impl std::str::FromStr for Target {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "embedded" { Self::Embedded } else { Self::Conf(text.into()) })
    }
}

/// Reads a length of time.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err(format!("{text:?} is no number of seconds up to a day")),
    }
}

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    match command {
        Command::Rbd(options) => rbd(access, &options),
        Command::Nfs(options) => nfs::run(access, &options),
        Command::Zc(options) => zc::run(&options),
        Command::ZcReceiver { addr } => {
            die_with_parent()?;
            onego_bench::zc::receive(addr).map_err(Failure::io("receiving what is sent"))
        }
        Command::Msgr(options) => msgr::run(access, &options),
        Command::MsgrServer(options) => msgr::serve(access, &options),
        Command::FloorServer { clients, connections } => {
            die_with_parent()?;
            floor::serve(clients, connections).map_err(Failure::io("serving bare sockets"))
        }
    }
}

/// What is said to whoever names a cluster where none is measured.
const NO_CLUSTER: &str = "this measures no cluster";

fn rbd(access: &Access, options: &RbdOptions) -> Result<(), Failure> {
    // What a cluster forgets need not be written before.
    let plan = options.loads.plan(!options.null_writes)?;
    if options.cluster.is_some() {
        access.refuse_cluster("--cluster names one already")?;
    }
    let embedded =
        options.cluster == Some(Target::Embedded) || (options.cluster.is_none() && !access.names_cluster());
    if options.null_writes && !embedded {
        return Err(Failure::Usage(
            "--null-writes is for the embedded cluster: no other forgets what is written".into(),
        ));
    }
    let outputs = options.output.open()?;
    let (what, measured) = if embedded {
        let (cluster, _clear) = start_embedded(access, options.loads.size, options.null_writes)?;
        let config = access.config_in(&cluster.conf())?;
        let what = "an embedded cluster: one OSD in memory".to_owned();
        output::lines([format!("measuring {what}")])?;
        let measured = on_cluster(&config, Some(cluster.pid()), options, &plan)?;
        (what, measured)
    } else {
        let config = match &options.cluster {
            Some(Target::Conf(path)) => access.config_in(path)?,
            _ => access.config()?,
        };
        let monitors: Vec<String> = config.monitors.iter().map(|monitor| monitor.addrs.to_string()).collect();
        let what = format!("pool {} of the cluster at {}", options.pool, monitors.join(", "));
        output::lines([format!("measuring {what}")])?;
        let measured = on_cluster(&config, None, options, &plan)?;
        (what, measured)
    };
    let rows = rows(&measured);
    let title = title(&format!("onego bench rbd, {what}"), &rows);
    outputs.write(&rows, || picture::svg(&title, &rows))?;
    judge(&measured, options.loads.verify)
}

/// This program, as the other half of what is measured.
pub(crate) fn floor_server() -> Result<Peer, Failure> {
    this_with(["bench", "floor-server"])
}

fn this_with(arguments: [&str; 2]) -> Result<Peer, Failure> {
    Ok(Peer { program: this_program()?, arguments: arguments.map(str::to_owned).to_vec() })
}

/// Where written bytes and random offsets follow from: another one each time, so that what an earlier run left is
/// never taken for what this one wrote.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 32)
}

/// A cluster in a process of its own, with room for an image of so many bytes.
pub(crate) fn start_embedded(
    access: &Access,
    image: u64,
    null_writes: bool,
) -> Result<(EmbeddedCluster, Unfinished), Failure> {
    // Objects are not as tight as their data, and for a moment an old and a new state of a block are there.
    let memory = image.saturating_mul(2).saturating_add(256 << 20).to_string();
    // Connections are encrypted with a key of their own, which only cephx gives them.
    let auth = if access.wants_secure() { "cephx" } else { "none" };
    let mut options = ["--memory", &memory, "--auth", auth].map(str::to_owned).to_vec();
    options.extend(access.movement());
    // It says so in its ceph.conf, by which its clients compress, too.
    options.extend(access.compression_options());
    if null_writes {
        options.push("--null-writes".to_owned());
    }
    let cluster = EmbeddedCluster::start(&this_program()?, &options)?;
    let directory = cluster.conf().parent().map(Path::to_owned);
    let clear = Unfinished::new(move || {
        // It is a temporary one: what does not go now goes with all such.
        drop(directory.map(fs::remove_dir_all));
        None
    });
    Ok((cluster, clear))
}

/// Makes an image, measures, and removes the image whatever came of it.
fn on_cluster(
    config: &Config,
    server: Option<u32>,
    options: &RbdOptions,
    plan: &Plan,
) -> Result<Vec<Measured>, Failure> {
    let image = format!("onego-bench-{:x}", seed());
    let shown = format!("{}/{image}", options.pool);
    if server.is_some() {
        // The embedded cluster is there for this alone; nobody else's gets a pool that he did not ask for.
        make_pool(config, &options.pool)?;
    }
    // The image of an embedded cluster goes with it.
    let left = server
        .is_none()
        .then(|| format!("image {shown} may be left behind: \"onego rbd rm {shown}\" removes it"));
    let _unfinished = if server.is_some() { None } else { Some(Unfinished::winding_down(|| left)) };
    let bed = Bed::prepare(config, &options.pool, &image, options.loads.size, server)
        .map_err(Failure::at(config))?;
    let progress = Progress::of_time(plan.total(), !options.output.no_progress);
    let measured = bed.measure(plan, &progress, interrupt::stop(), printer(&progress, plan.floor.is_some()));
    progress.finish();
    interrupt::progress();
    if let Err(error) = bed.remove(interrupt::progress) {
        tracing::warn!(%error, "image {}/{image} is left behind", options.pool);
    }
    Ok(measured?)
}

/// Prints each measurement below the head of its pattern.
pub(crate) fn printer(progress: &Progress, with_floor: bool) -> impl FnMut(&Measured) {
    let mut last = None;
    move |measured| {
        let row = &measured.row;
        let kind = (row.rw, row.mode.clone());
        if last.replace(kind.clone()) != Some(kind) {
            print_line(progress, &table::header(row, with_floor));
        }
        print_line(progress, &table::line(row, measured.floor.as_ref()));
        measured.errors.iter().for_each(|error| print_line(progress, &format!("      {error}")));
    }
}

/// Prints a line of results. When nobody reads them any more the measurement ends.
pub(crate) fn print_line(progress: &Progress, line: &str) {
    if progress.print(line).is_err() {
        interrupt::raise_unread();
    }
}

/// Makes the pool, unless the cluster has it.
pub(crate) fn make_pool(config: &Config, name: &str) -> Result<(), Failure> {
    let (mut reactor, cluster) = onego::ceph::Reactor::new(config)?;
    reactor.block_on(async {
        cluster.ready().await?;
        match cluster.create_pool(name, 0).await {
            Err(onego::ceph::Error::Exists { .. }) => Ok(()),
            other => other.map(drop),
        }
    })??;
    Ok(())
}

/// All figures, those of bare sockets beside what they are to be compared with.
pub(crate) fn rows(measured: &[Measured]) -> Vec<Row> {
    measured
        .iter()
        .flat_map(|measured| [Some(&measured.row), measured.floor.as_ref()])
        .flatten()
        .cloned()
        .collect()
}

/// What is the same in all rows, behind what measured them.
pub(crate) fn title(what: &str, rows: &[Row]) -> String {
    match rows.first() {
        Some(Row { engine, jobs, io_depth, .. }) => {
            format!("{what}: numjobs={jobs} iodepth={io_depth}, {engine}")
        }
        None => what.to_owned(),
    }
}

pub(crate) fn write(path: &Path, content: &str) -> Result<(), Failure> {
    fs::write(path, content).map_err(Failure::file(path))
}

/// Fails if anything did.
pub(crate) fn judge(measured: &[Measured], verify: bool) -> Result<(), Failure> {
    match measured.iter().map(|measured| measured.row.errors).sum() {
        0 => Ok(()),
        errors if verify => Err(Failure::Corrupt(errors)),
        errors => Err(Failure::Requests(errors)),
    }
}
