//! `onego bench rbd`.

use super::embedded::{make_pool, start_embedded};
use super::loads::Loads;
use super::outputs::Output;
use super::parts::seed;
use super::report::{judge, printer, rows, title};
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::metrics::{Metrics, MetricsOptions};
use crate::output;
use crate::size;
use crate::spec::DEFAULT_POOL;
use onego::ceph::{Config, Reactor};
use onego::rbd::{CreateOptions, Features, Layout};
use onego_bench::load::{Measured, Plan};
use onego_bench::rbd::{Bed, BedImage};
use onego_bench::report::picture;
use onego_bench::report::progress::Progress;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  onego bench rbd --rw randread,randwrite --block-size 4k,64k,1m --io-depth 128
  onego bench rbd --cluster /etc/ceph/ceph.conf --rw randrw --verify --seconds 10 --json rows.json

CPU is that of one I/O, in microseconds, in this process and in the cluster's. Beside it is what bare
sockets need that move the same bytes at the same depth.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// "embedded" starts a cluster of its own; or the configuration of a cluster [default: what --conf or --mon-host names,
    /// or embedded]
    #[arg(long, value_name = "embedded|CONF")]
    cluster: Option<MeasuredCluster>,
    /// The process of that cluster, if it is one and on this machine: its CPU time is counted, too
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    #[command(flatten)]
    loads: Loads,
    /// The pool of the image
    #[arg(short, long, value_name = "POOL", default_value = DEFAULT_POOL)]
    pool: String,
    /// An image that is there: it has its own size, and stays; what the loads write replaces what it has
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["null_writes", "image_feature", "object_size", "clone"])]
    image: Option<String>,
    /// Features of the image; may be given more than once [default: layering alone]
    #[arg(long, value_name = "FEATURE")]
    image_feature: Vec<Features>,
    /// Bytes of the image's objects, a power of two
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size::bytes)]
    object_size: u64,
    /// Measure a clone of a full image: its first writes bring the bytes of its parent with them
    #[arg(long, conflicts_with = "null_writes")]
    clone: bool,
    /// The embedded cluster acknowledges writes and forgets them
    #[arg(long, conflicts_with = "verify")]
    null_writes: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    output: Output,
}

impl Options {
    /// Bytes that are written at most.
    fn bytes(&self) -> u64 {
        self.loads.size.saturating_mul(if self.clone { 2 } else { 1 })
    }

    /// What the image is to be.
    fn image(&self) -> Result<CreateOptions, Failure> {
        if !self.object_size.is_power_of_two() {
            return Err(Failure::Usage(format!("object size {} is no power of two", self.object_size)));
        }
        let layout = Layout::plain(self.object_size.ilog2() as u8);
        let layout = layout.map_err(|error| Failure::Usage(error.to_string()))?;
        let features = self.image_feature.iter().copied().reduce(Features::with);
        let options = CreateOptions::new(self.loads.size).with_layout(layout);
        Ok(options.with_features(features.unwrap_or(Features::LAYERING)))
    }
}

/// A cluster to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MeasuredCluster {
    Embedded,
    Conf(PathBuf),
}

impl std::str::FromStr for MeasuredCluster {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "embedded" { Self::Embedded } else { Self::Conf(text.into()) })
    }
}

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    // What a cluster forgets need not be written before.
    let plan = options.loads.plan(!options.null_writes)?;
    if options.cluster.is_some() {
        access.refuse_cluster("--cluster names one already")?;
    }
    let embedded = options.cluster == Some(MeasuredCluster::Embedded)
        || (options.cluster.is_none() && !access.names_cluster());
    if options.image.is_some() && embedded {
        return Err(Failure::Usage("--image is on a cluster that is there: name it by --conf".into()));
    }
    if options.null_writes && !embedded {
        return Err(Failure::Usage(
            "--null-writes is for the embedded cluster: no other forgets what is written".into(),
        ));
    }
    let outputs = options.output.open()?;
    let (what, measured) = if embedded {
        let (cluster, _clear) = start_embedded(access, options.bytes(), options.null_writes)?;
        let config = access.config_in(&cluster.conf())?;
        let what = "an embedded cluster: one OSD in memory".to_owned();
        output::lines([format!("measuring {what}")])?;
        let measured = on_cluster(&config, Some(cluster.pid()), options, &plan)?;
        (what, measured)
    } else {
        let config = match &options.cluster {
            Some(MeasuredCluster::Conf(path)) => access.config_in(path)?,
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

/// Measures an image that is there.
fn on_image(
    config: &Config,
    options: &Options,
    image: &str,
    metrics: &Metrics,
    plan: &Plan,
) -> Result<Vec<Measured>, Failure> {
    let _unfinished = Unfinished::winding_down(|| None);
    let bed = Bed::of_image(config, &options.pool, image, options.server_pid, metrics.registry());
    let bed = bed.map_err(Failure::at(config))?;
    metrics.ready();
    let progress = Progress::of_time(plan.total(), !options.output.no_progress);
    let measured = bed.measure(plan, &progress, interrupt::stop(), printer(&progress, plan.floor.is_some()));
    progress.finish();
    Ok(measured?)
}

/// Waits until the cluster answers. Before, nothing is left behind, and a signal ends the program at once.
fn reach(config: &Config) -> Result<(), onego_bench::Error> {
    let (mut reactor, cluster) = Reactor::new(config)?;
    Ok(reactor.block_on(cluster.ready())??)
}

/// Makes an image, measures, and removes the image whatever came of it. `embedded` is the process of an embedded cluster.
fn on_cluster(
    config: &Config,
    embedded: Option<u32>,
    options: &Options,
    plan: &Plan,
) -> Result<Vec<Measured>, Failure> {
    let metrics = options.metrics.start()?;
    metrics.line().into_iter().for_each(|line| interrupt::say(&line));
    let mut config = config.clone();
    config.slow = options.metrics.slow();
    let config = &config;
    if let Some(image) = &options.image {
        return on_image(config, options, image, &metrics, plan);
    }
    let image = format!("onego-bench-{:x}", seed());
    let shown = format!("{}/{image}", options.pool);
    if embedded.is_some() {
        // The embedded cluster is there for this alone; nobody else's gets a pool that he did not ask for.
        make_pool(config, &options.pool)?;
    } else {
        reach(config).map_err(Failure::at(config))?;
    }
    // The image of an embedded cluster goes with it.
    let left = embedded
        .is_none()
        .then(|| format!("image {shown} may be left behind: \"onego rbd rm {shown}\" removes it"));
    let _unfinished = if embedded.is_some() { None } else { Some(Unfinished::winding_down(|| left)) };
    let kind = if options.clone { BedImage::Clone } else { BedImage::Plain };
    let server = embedded.or(options.server_pid);
    let bed =
        Bed::prepare(config, &options.pool, &image, &options.image()?, kind, server, metrics.registry())
            .map_err(Failure::at(config))?;
    metrics.ready();
    let progress = Progress::of_time(plan.total(), !options.output.no_progress);
    let measured = bed.measure(plan, &progress, interrupt::stop(), printer(&progress, plan.floor.is_some()));
    progress.finish();
    interrupt::progress();
    if let Err(error) = bed.remove(interrupt::progress) {
        tracing::warn!(%error, "image {}/{image} is left behind", options.pool);
    }
    Ok(measured?)
}
