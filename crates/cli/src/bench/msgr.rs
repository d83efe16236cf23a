//! `onego bench msgr`.

use super::outputs::{Output, Outputs};
use super::parts::{NO_CLUSTER, floor_server, seconds, seed, this_with};
use super::report::print_line;
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt;
use crate::process::die_with_parent;
use crate::size;
use onego::{EngineKind, Spin};
use onego_bench::msgr::{self, EndOptions, Load, Measured, MsgrRow, Plan, table};
use onego_bench::report::picture;
use onego_bench::report::progress::Progress;
use onego_bench::row::Row;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  onego bench msgr
  onego bench msgr --engines epoll,uring --block-size 1k,64k --io-depth 128 --json rows.json
  onego bench msgr --raw

Two messengers on this machine, each in a process and a thread of its own: a request carries a block, a small
message answers it. CPU is that of one request, in microseconds; \"calls\" are system calls a request. Beside
it is what bare sockets need that move the same bytes at the same depth.

--crc off leaves out the checksums of fronts and data. The protocol cannot agree upon that: both halves of
this measurement are told, and no other peer would understand them.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bytes of data of a request
    #[arg(
        long,
        visible_alias = "bs",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "512,1k,2k,4k,8k,16k,32k,64k,128k,256k,512k,1m",
        value_parser = size::block
    )]
    block_size: Vec<u64>,
    /// Connections, all on one thread at each end
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16384))]
    connections: u32,
    /// Requests in flight on each connection
    #[arg(long, visible_alias = "iodepth", value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    io_depth: u32,
    /// How long to measure each block size
    #[arg(long, visible_alias = "runtime", value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Engines to measure one after the other [default: that of --engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    engines: Vec<EngineKind>,
    /// Make and check checksums of fronts and data
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = on_off, action = clap::ArgAction::Set)]
    crc: bool,
    /// Check all data
    #[arg(long)]
    verify: bool,
    /// Measure bare sockets alone
    #[arg(long, conflicts_with_all = ["verify", "no_floor"])]
    raw: bool,
    /// Do not measure bare sockets
    #[arg(long)]
    no_floor: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Args)]
pub(crate) struct ServerOptions {
    /// How many connections to serve
    connections: u32,
    #[arg(long, default_value = "on", value_parser = on_off, action = clap::ArgAction::Set)]
    crc: bool,
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?} is neither \"on\" nor \"off\"")),
    }
}

impl Options {
    fn plan(&self, engine: EngineKind, spin: Spin) -> Result<Plan, Failure> {
        let engines = if self.engines.is_empty() { vec![engine] } else { self.engines.clone() };
        let mut loads = Vec::new();
        for engine in engines {
            let end = EndOptions { engine, crc: self.crc, spin };
            for size in &self.block_size {
                let block_size = u32::try_from(*size)
                    .map_err(|_| Failure::Usage(format!("blocks of {size} bytes are too large")))?;
                let Self { connections, io_depth, verify, .. } = *self;
                loads.push(Load { end, block_size, connections, io_depth, verify });
            }
        }
        // With the work of verifying in it, nothing can be compared.
        let floor = !self.no_floor && !self.verify;
        Ok(Plan {
            loads,
            duration: Duration::from_secs_f64(self.seconds),
            server: if self.raw { None } else { Some(this_with(["bench", "msgr-server"])?) },
            floor: if floor { Some(floor_server()?) } else { None },
            seed: seed(),
        })
    }
}

/// The serving half.
pub(super) fn serve(access: &Access, options: &ServerOptions) -> Result<(), Failure> {
    die_with_parent()?;
    let ServerOptions { connections, crc } = *options;
    let end = EndOptions { engine: access.engine, crc, spin: access.spin };
    msgr::serve(connections, end).map_err(Failure::io("serving messengers"))
}

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    let plan = options.plan(access.engine, access.spin)?;
    plan.check()?;
    access.refuse_cluster(NO_CLUSTER)?;
    let outputs = options.output.open()?;
    let progress = Progress::of_time(plan.total(), !options.output.no_progress);
    let mut last = None;
    let measured = plan.measure(&progress, interrupt::stop(), |measured| {
        if last.replace(measured.engine().to_owned()).as_deref() != Some(measured.engine()) {
            print_line(&progress, &table::header(measured));
        }
        print_line(&progress, &table::line(measured));
        measured.errors.iter().for_each(|error| print_line(&progress, &format!("      {error}")));
    });
    progress.finish();
    let measured = measured?;
    write_results(options, outputs, &measured)?;
    match measured.iter().map(|measured| measured.errors.len() as u64).sum() {
        0 => Ok(()),
        errors => Err(Failure::Requests(errors)),
    }
}

fn write_results(options: &Options, outputs: Outputs, measured: &[Measured]) -> Result<(), Failure> {
    let rows: Vec<&MsgrRow> = measured.iter().flat_map(Measured::rows).collect();
    outputs.write(&rows, || {
        let rows: Vec<Row> = rows.iter().map(|row| row.row.clone()).collect();
        let title = format!(
            "onego bench msgr: connections={} iodepth={} crc={}",
            options.connections,
            options.io_depth,
            if options.crc { "on" } else { "off" }
        );
        picture::svg(&title, &rows)
    })
}
