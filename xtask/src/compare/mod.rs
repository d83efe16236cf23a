//! Our figures beside a peer's and beside the floor, taken in one run on this machine.

mod fio;
mod report;
mod row;

use crate::cluster::{Embedded, Home, Install, RealCeph, Release, Stage, Store};
use crate::interop;
use crate::packages;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use row::Row;
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
    /// Measure this program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
    /// Write every row to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Our RBD client and embedded cluster, and fio's librbd with Ceph's memstore OSD
    Rbd,
}

/// A pattern of I/O on one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) rw: &'static str,
    pub(crate) block_size: u64,
    pub(crate) io_depth: u32,
}

const LOADS: &[Load] = &[
    Load { rw: "randread", block_size: 4 << 10, io_depth: 128 },
    Load { rw: "randwrite", block_size: 4 << 10, io_depth: 128 },
    Load { rw: "randread", block_size: 64 << 10, io_depth: 32 },
    Load { rw: "randwrite", block_size: 64 << 10, io_depth: 32 },
    Load { rw: "read", block_size: 1 << 20, io_depth: 16 },
    Load { rw: "write", block_size: 1 << 20, io_depth: 16 },
];

/// Size of the image: it is written once before anything is measured, so that reads find data.
const IMAGE_MIB: u64 = 1024;

/// Who was measured.
pub(crate) const OURS: &str = "onego, embedded cluster";
pub(crate) const LIBRBD_OURS: &str = "librbd, embedded cluster";
pub(crate) const LIBRBD_CEPH: &str = "librbd, Ceph memstore OSD";
pub(crate) const FLOOR: &str = "floor (bare sockets)";

/// Measures everything, prints the tables and writes the rows.
///
/// What is compared is measured right after each other, load by load and round by round: the machine may be twice as
/// fast a minute later.
pub(crate) fn run(options: &Options) -> Result<()> {
    let What::Rbd = options.what;
    packages::ensure()?;
    let workspace = Workspace::load()?;
    let onego = interop::find_onego(&workspace, options.onego.as_deref())?;
    let home = Home::enter(&workspace)?;
    let install = Install::find(Release::Pacific, &home)?;
    let stage = |name: &str| Stage::new(&home, name, &install, &onego);
    let [onego, librbd_onego, librbd_ceph] =
        [stage("compare-onego")?, stage("compare-librbd-onego")?, stage("compare-librbd-ceph")?];
    let mut embedded = embedded(&librbd_onego)?;
    let ceph = RealCeph::start(&librbd_ceph, Store::Memory)?;
    for stage in [&librbd_onego, &librbd_ceph] {
        fio::fill(stage)?;
    }

    let mut rows = Vec::new();
    for round in 1..=options.repeat {
        for load in LOADS {
            sh::step(&format!("round {round} of {}: {load}", options.repeat));
            let peer = |stage, who| fio::Peer { stage, who, seconds: options.seconds };
            rows.extend(ours(&onego, load, options.seconds)?);
            rows.push(peer(&librbd_onego, LIBRBD_OURS).measure(load, || embedded.server().cpu_seconds())?);
            rows.push(peer(&librbd_ceph, LIBRBD_CEPH).measure(load, || ceph.osd_cpu_seconds())?);
        }
    }
    drop((embedded, ceph));
    for stage in [onego, librbd_onego, librbd_ceph] {
        stage.clear()?;
    }

    report::print(&rows, LOADS);
    if let Some(path) = &options.json {
        let lines: Result<Vec<_>, _> = rows.iter().map(serde_json::to_string).collect();
        fs::write(path, lines?.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `onego bench rbd` with the cluster as its child, and the floor that it measures beside.
fn ours(stage: &Stage, load: &Load, seconds: u32) -> Result<Vec<Row>> {
    stage.onego(&format!(
        "bench rbd --cluster embedded --rw {} --block-size {} --io-depth {} --size {IMAGE_MIB}M \
         --seconds {seconds} --json rows.json",
        load.rw, load.block_size, load.io_depth
    ))?;
    let mut rows: Vec<Row> = row::read(&stage.path("rows.json"))?;
    ensure!(rows.iter().any(|row| !row.is_floor()), "`onego bench rbd` wrote no row of its own");
    for row in &mut rows {
        row.who = if row.is_floor() { FLOOR } else { OURS };
    }
    Ok(rows)
}

/// The embedded cluster that librbd is a client of.
fn embedded(stage: &Stage) -> Result<Embedded> {
    // Room for the image twice: objects are not as tight as their data.
    let cluster = Embedded::start(stage, &format!("--memory {}M", 2 * IMAGE_MIB))?;
    if !stage.ceph("ceph osd pool ls")?.lines().any(|name| name == "rbd") {
        stage.ceph("ceph osd pool create rbd 32")?;
    }
    Ok(cluster)
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = match self.block_size {
            bytes if bytes >= 1 << 20 => format!("{}m", bytes >> 20),
            bytes => format!("{}k", bytes >> 10),
        };
        write!(f, "{size} {}, depth {}", self.rw, self.io_depth)
    }
}
