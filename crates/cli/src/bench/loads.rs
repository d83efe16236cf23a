//! Which loads are measured, and how: what `bench rbd` and `bench nfs` have in common but for their defaults.

use super::parts::{floor_server, seconds, seed};
use crate::failure::Failure;
use crate::size;
use onego_bench::load::Plan;
use onego_bench::row::{Load, Pattern};
use std::time::Duration;

/// The loads, and the bytes that they are put on.
#[derive(clap::Args)]
pub(super) struct Loads {
    /// Patterns: randread, randwrite, read, write, randrw
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "randread")]
    rw: Vec<Pattern>,
    /// Bytes of a request
    #[arg(
        long,
        visible_alias = "bs",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4k",
        value_parser = size::block
    )]
    block_size: Vec<u64>,
    /// Clients at a time, each with a thread and a connection of its own
    #[arg(long, visible_alias = "numjobs", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) jobs: u32,
    /// Requests in flight, for each client
    #[arg(long, visible_alias = "iodepth", value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) io_depth: u32,
    /// How long to measure each load
    #[arg(long, visible_alias = "runtime", value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Bytes of the image or file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::bytes)]
    pub(super) size: u64,
    /// Check everything that is read against what was written, and read all of it at the end
    #[arg(long)]
    pub(super) verify: bool,
    /// How much of every 512 bytes that are written is zeros; nothing can be saved on the rest
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), conflicts_with = "verify")]
    buffer_compress_percentage: u8,
    /// Do not measure bare sockets
    #[arg(long)]
    no_floor: bool,
}

impl Loads {
    /// What is to be done. `fill`: everything is written before it is read or written again.
    pub(super) fn plan(&self, fill: bool) -> Result<Plan, Failure> {
        let load = |rw, block_size| Load { rw, block_size, jobs: self.jobs, io_depth: self.io_depth };
        let loads = self.rw.iter().flat_map(|rw| self.block_size.iter().map(move |size| load(*rw, *size)));
        let plan = Plan {
            loads: loads.collect(),
            duration: Duration::from_secs_f64(self.seconds),
            verify: self.verify,
            fill,
            zeros: self.buffer_compress_percentage,
            // With the work of verifying in it, nothing can be compared.
            floor: if self.no_floor || self.verify { None } else { Some(floor_server()?) },
            seed: seed(),
        };
        plan.check(self.size)?;
        Ok(plan)
    }
}
