//! `onego bench block`.

use super::embedded::{make_pool, start_embedded};
use super::outputs::Output;
use super::parts::{NO_CLUSTER, seconds};
use super::report::print_line;
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::size;
use crate::spec::DEFAULT_POOL;
use onego_bench::block::{self, BlockPlan, BlockRow, CallersLoad, DeviceKind, ImageCluster, Way};
use onego_bench::embedded::EmbeddedCluster;
use onego_bench::report::progress::Progress;
use onego_bench::row::Pattern;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  onego bench block
  onego bench block --devices null --block-size 64k --rates max --callers 1
  onego bench block --seconds 2 --repeat 5 --json rows.json --svg rows.svg

First one caller reads in order, an I/O at a time, as dd does on a raw device: each I/O goes down as one container;
or is cut to pieces of 4 KiB with a header each, which a global sorted queue puts together again; or is cut, and the
pieces go down one by one. Then callers read and write 4 KiB in order, in batches: each through a plug of its own, all
through the global queue, or one by one.

The global queue is built here for this measurement alone, as the block layer of Linux 2.4 had it: buffer heads, requests,
and the elevator. \"loop alone\" is the loop that paces the caller, without a device; it is part of every other
figure at the same rate. The image is in an embedded cluster in another process, and \"server\" is its CPU. \"requests an
I/O\" is how many requests the device got, and the last columns are CPU (both ends) and rate beside the first way.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Devices: null, memory, and rbd, an image in an embedded cluster
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "null,memory,rbd")]
    devices: Vec<DeviceKind>,
    /// Bytes of a raw read
    #[arg(
        long,
        visible_alias = "bs",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "32k,64k",
        value_parser = size::block
    )]
    block_size: Vec<u64>,
    /// Megabytes (10^6) a second of raw reads; "max" is as fast as it goes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "13,100,1000,max", value_parser = rate)]
    rates: Vec<Rate>,
    /// Patterns of 4 KiB: read, write
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "read,write", value_parser = in_order)]
    rw: Vec<Pattern>,
    /// Callers that read or write 4 KiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,64", value_parser = clap::value_parser!(u32).range(1..=1024))]
    callers: Vec<u32>,
    /// I/Os of 4 KiB in a batch of a caller
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1024))]
    batch: u32,
    /// How long to measure each
    #[arg(long, visible_alias = "runtime", value_name = "S", default_value_t = 0.5, value_parser = seconds)]
    seconds: f64,
    /// Times that each is measured, in turns with the other ways; the median by CPU counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Bytes of each device
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size::bytes)]
    size: u64,
    #[command(flatten)]
    output: Output,
}

/// Bytes a second; `None`: as fast as it goes.
#[derive(Debug, Clone, Copy)]
struct Rate(Option<u64>);

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<u64>() {
        _ if text == "max" => Ok(Rate(None)),
        Ok(megabytes @ 1..=1_000_000) => Ok(Rate(Some(megabytes * 1_000_000))),
        _ => Err(format!("{text:?} is neither \"max\" nor a number of megabytes from 1 to 1000000")),
    }
}

fn in_order(text: &str) -> Result<Pattern, String> {
    match text.parse() {
        Ok(pattern @ (Pattern::Read | Pattern::Write)) => Ok(pattern),
        _ => Err(format!("{text:?} is neither \"read\" nor \"write\"")),
    }
}

/// Bytes of the I/Os that callers submit in batches.
const SMALL: u64 = 4096;

impl Options {
    fn plan(&self, cluster: Option<ImageCluster>) -> BlockPlan {
        let mut loads = Vec::new();
        for block_size in &self.block_size {
            for Rate(rate) in &self.rates {
                let (block_size, rate) = (*block_size, *rate);
                loads.push(CallersLoad { rw: Pattern::Read, block_size, callers: 1, batch: 1, rate });
            }
        }
        for rw in &self.rw {
            for callers in &self.callers {
                let (rw, callers, batch) = (*rw, *callers, self.batch);
                loads.push(CallersLoad { rw, block_size: SMALL, callers, batch, rate: None });
            }
        }
        BlockPlan {
            devices: self.devices.clone(),
            loads,
            size: self.size,
            duration: Duration::from_secs_f64(self.seconds),
            repeat: self.repeat,
            cluster,
        }
    }
}

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    options.plan(None).check()?;
    access.refuse_cluster(NO_CLUSTER)?;
    let outputs = options.output.open()?;
    let embedded = options.devices.contains(&DeviceKind::Image).then(|| cluster(access, options.size));
    let embedded = embedded.transpose()?;
    let plan = options.plan(embedded.as_ref().map(|(_, _, image)| image.clone()));
    let progress = Progress::of_time(plan.total(), !options.output.no_progress);
    let mut last = None;
    let measured = plan.measure(&progress, interrupt::stop(), |rows| print(&progress, &mut last, rows));
    progress.finish();
    let rows = measured?;
    outputs.write(&rows, || block::svg("onego bench block: as fast as it goes", &rows))
}

/// An embedded cluster, and where the image is in it.
fn cluster(access: &Access, size: u64) -> Result<(EmbeddedCluster, Unfinished, ImageCluster), Failure> {
    let (cluster, clear) = start_embedded(access, size, false)?;
    let config = access.config_in(&cluster.conf())?;
    make_pool(&config, DEFAULT_POOL)?;
    let (pool, image) = (DEFAULT_POOL.to_owned(), "onego-bench".to_owned());
    let image = ImageCluster { config, pool, image, server: cluster.pid() };
    Ok((cluster, clear, image))
}

/// Prints the ways of a load; `last` is the header before.
fn print(progress: &Progress, last: &mut Option<String>, rows: &[BlockRow]) {
    let Some(first) = rows.iter().find(|row| row.row.mode != Way::Alone.name()) else { return };
    let header = block::header(first);
    if last.as_ref() != Some(&header) {
        print_line(progress, &header);
        *last = Some(header);
    }
    rows.iter().for_each(|row| print_line(progress, &block::line(row, first)));
}
