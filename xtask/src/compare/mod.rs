//! Our figures beside a peer's and beside the floor, taken in one run on this machine.

mod fio;
mod mode;
mod modes;
mod nfs;
mod rbd;
mod report;
mod row;

use crate::cluster::{Home, Install, Stage};
use crate::interop;
use crate::packages;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use mode::Mode;
use row::{Row, Taken};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to compare
    #[arg(value_enum)]
    what: What,
    /// Seconds for each load
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Measure everything this many times, in turn, and report medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    repeat: u32,
    /// How connections are protected [default: crc alone for "rbd", all for "modes"]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    modes: Vec<Mode>,
    /// Measure this program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
    /// Measure an earlier build of the program, too (rbd in crc mode, and nfs); may be given several times
    #[arg(long, value_name = "PROGRAM")]
    baseline: Vec<PathBuf>,
    /// Measure this program and earlier builds alone: neither other programs nor the floor
    #[arg(long, requires = "baseline")]
    no_peers: bool,
    /// Write every row to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Our RBD client and embedded cluster, and fio's librbd with Ceph's memstore OSD
    Rbd,
    /// Our RBD client in each mode, 32 clients with 32 requests each, writes that the cluster forgets
    Modes,
    /// Our client and server of NFS over TCP, libnfs, and nfs-ganesha with its file system in memory
    Nfs,
}

/// A pattern of I/O on one image, and how it is protected on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    mode: Mode,
    rw: &'static str,
    block_size: u64,
    jobs: u32,
    io_depth: u32,
}

/// Size of the image: it is written once before anything is measured, so that reads find data.
const IMAGE_MIB: u64 = 1024;

/// Who was measured.
const OURS: &str = "onego, embedded cluster";
const FLOOR: &str = "floor (bare sockets)";

/// Measures everything, prints the tables and writes the rows.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::ensure()?;
    let workspace = Workspace::load()?;
    let onego = interop::find_onego(&workspace, options.onego.as_deref())?;
    let home = Home::enter(&workspace)?;
    let lines = match options.what {
        What::Rbd => json(&rbd::compare(options, &home, &onego)?),
        What::Modes => json(&modes::compare(options, &home, &onego)?),
        What::Nfs => json(&nfs::compare(options, &home, &onego)?),
    }?;
    if let Some(path) = &options.json {
        fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Stages for the earlier builds, with what the report calls them.
fn baselines(options: &Options, home: &Home, install: &Install, name: &str) -> Result<Vec<(String, Stage)>> {
    let stage = |(at, program): (usize, &PathBuf)| {
        let program = program.canonicalize().with_context(|| format!("no program {}", program.display()))?;
        let who =
            format!("{} {}", report::BASELINE, program.file_name().unwrap_or_default().to_string_lossy());
        Ok((who, Stage::new(home, &format!("{name}-baseline-{at}"), install, &program)?))
    };
    options.baseline.iter().enumerate().map(stage).collect()
}

/// Builds take turns at being the first: the machine may be slower for whoever comes after another load.
fn in_turn<T>(builds: &[T], round: u32) -> impl Iterator<Item = &T> {
    let first = round as usize % builds.len();
    builds.iter().cycle().skip(first).take(builds.len())
}

/// One object a line.
fn json<T: Serialize>(taken: &[T]) -> Result<String> {
    let lines: serde_json::Result<Vec<_>> = taken.iter().map(serde_json::to_string).collect();
    Ok(lines?.join("\n") + "\n")
}

/// `onego bench rbd` with the cluster as its child, and the floor that it measures beside unless `more` says no.
fn ours(stage: &Stage, who: &str, load: &Load, seconds: u32, more: &str) -> Result<Vec<Taken>> {
    stage.onego(&format!(
        "{} bench rbd --cluster embedded --rw {} --block-size {} --jobs {} --io-depth {} --size {IMAGE_MIB}M \
         --seconds {seconds} --json rows.json {more}",
        load.mode.options(),
        load.rw,
        load.block_size,
        load.jobs,
        load.io_depth
    ))?;
    let rows: Vec<Row> = interop::read_rows(&stage.path("rows.json"))?;
    ensure!(rows.iter().any(|row| !row.is_floor()), "`onego bench rbd` wrote no row of its own");
    let taken = |row: Row| {
        if row.is_floor() {
            return Taken { who: FLOOR.to_owned(), load: *load, row };
        }
        Taken { who: who.to_owned(), load: *load, row: Row { mode: load.mode.to_string(), ..row } }
    };
    Ok(rows.into_iter().map(taken).collect())
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = row::short_size(self.block_size);
        write!(f, "{size} {}, {}, depth {}", self.rw, self.mode, self.io_depth)
    }
}
