//! `onego demo`: everything once, in less than a minute.

use crate::access::Access;
use crate::bench::embedded::start_embedded;
use crate::bench::outputs::{OutputFile, SVG};
use crate::bench::parts::{floor_server, seconds, seed};
use crate::bench::report::{judge, printer, rows, title};
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::size;
use onego::rbd::CreateOptions;
use onego_bench::load::{Measured, Plan};
use onego_bench::rbd::{Bed, BedImage};
use onego_bench::report::picture;
use onego_bench::report::progress::Progress;
use onego_bench::row::{Load, Pattern};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long to measure each block size
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Where to draw the picture
    #[arg(long, value_name = "FILE", default_value = "onego-demo.svg")]
    svg: PathBuf,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) const EXAMPLE: &str = "\
Example:
  onego demo

Starts an embedded cluster in a process of its own, writes an image and reads it back with verification,
measures block sizes from 4k to 1m, prints what it took, CPU included, and draws a picture of it.";

/// The image: larger than any cache that the figures could owe something to.
const SIZE: u64 = 256 << 20;

const IO_DEPTH: u32 = 32;

/// The load whose every byte is checked.
const VERIFIED: Load = Load { rw: Pattern::RandRw, block_size: 16 << 10, jobs: 1, io_depth: IO_DEPTH };

pub(crate) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    access.refuse_cluster("the demo starts a cluster of its own")?;
    let picture = OutputFile::open(&options.svg, SVG)?;
    let stop = interrupt::stop();
    let started = Instant::now();
    let (cluster, _clear) = start_embedded(access, SIZE, false)?;
    let started = started.elapsed().as_millis();
    output::lines([format!("an embedded cluster is up after {started} ms: one monitor, one OSD in memory")])?;
    let config = access.config_in(&cluster.conf())?;
    let bed = Bed::prepare(
        &config,
        "rbd",
        "demo",
        &CreateOptions::new(SIZE),
        BedImage::Plain,
        Some(cluster.pid()),
        &Default::default(),
    )?;
    output::lines([format!("it keeps image rbd/demo of {}", size::human(SIZE))])?;
    let progress = |plan: &Plan| Progress::of_time(plan.total(), !options.no_progress);

    verify(&bed, options, stop, progress)?;

    let sweep = sweep(options)?;
    let bar = progress(&sweep);
    let measured = bed.measure(&sweep, &bar, stop, printer(&bar, true));
    bar.finish();
    let measured = measured?;
    bed.remove(interrupt::progress)?;

    let rows = rows(&measured);
    picture.write(&picture::svg(&title("onego demo", &rows), &rows))?;
    output::lines([format!("{} shows IOPS, bandwidth and CPU by block size", options.svg.display())])?;
    judge(&measured, false)
}

/// Writes and reads at random, and reads everything at the end; fails unless every byte is what was written.
fn verify(
    bed: &Bed,
    options: &Options,
    stop: &AtomicBool,
    progress: impl Fn(&Plan) -> Progress,
) -> Result<(), Failure> {
    let plan = Plan {
        loads: vec![VERIFIED],
        duration: Duration::from_secs_f64(options.seconds),
        verify: true,
        fill: true,
        zeros: 0,
        floor: None,
        seed: seed(),
    };
    let bar = progress(&plan);
    let verified = bed.measure(&plan, &bar, stop, |_| ());
    bar.finish();
    let verified: Vec<Measured> = verified?;
    output::lines(verified.iter().flat_map(|measured| &measured.errors))?;
    judge(&verified, true)?;
    let ios: u64 = verified.iter().map(|measured| measured.row.ios).sum();
    output::lines([format!(
        "verified: {ios} blocks written and read at random, then all of the image, and each was right\n"
    )])
}

fn sweep(options: &Options) -> Result<Plan, Failure> {
    let load = |rw, shift| Load { rw, block_size: 1_u64 << shift, jobs: 1, io_depth: IO_DEPTH };
    let patterns = [Pattern::RandRead, Pattern::RandWrite];
    Ok(Plan {
        loads: patterns.iter().flat_map(|rw| (12..=20).map(|shift| load(*rw, shift))).collect(),
        duration: Duration::from_secs_f64(options.seconds),
        verify: false,
        fill: true,
        zeros: 0,
        floor: Some(floor_server()?),
        seed: seed(),
    })
}
