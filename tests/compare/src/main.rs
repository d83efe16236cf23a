//! Onego's figures next to those of its peers and of bare sockets, measured in one run on one machine.
//!
//! A machine may be twice as fast a minute later. Everything under one load is therefore measured in succession, load
//! by load and round by round; builds take turns at being first; and tables show medians and ratios.
#![forbid(unsafe_code)]

mod block;
mod capi;
mod clients;
mod features;
mod metrics;
mod nfs;
mod rbd;
mod report;
mod row;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use onego_sandbox::{Release, Sandbox, Server, sh, workspace};
use rbd::Mode;
use row::{Load, Row};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of everything in a sandbox. `--seconds` and `--repeat` decide how long a comparison takes.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Prefix of an earlier build's name in tables.
const BASELINE: &str = "baseline";

/// Measure Onego next to its peers
#[derive(Parser)]
#[command(name = "cargo compare", bin_name = "cargo compare")]
struct Options {
    /// Comparison to run
    #[arg(value_enum)]
    comparison: Comparison,
    /// Measure each load for that many seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u32,
    /// Measure everything that many times, in turn, and report medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    repeat: u32,
    /// Protect connections in these modes [default: crc for "rbd", all for "modes"]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    modes: Vec<Mode>,
    /// Measure this program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
    /// Also measure an earlier build ("rbd" in crc mode, "nfs", "block"); repeatable
    #[arg(long, value_name = "PROGRAM")]
    baseline: Vec<PathBuf>,
    /// Measure builds only, without peers and floors
    #[arg(long, requires = "baseline")]
    no_peers: bool,
    /// Write every row to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Comparison {
    /// RBD client and embedded cluster; fio's librbd on that cluster and on Ceph's memstore OSD
    Rbd,
    /// RBD client and librbd on the embedded cluster: image features, clones, usage of a large image
    RbdFeatures,
    /// RBD client in each mode: 32 clients with 32 requests each, writes discarded by the cluster
    Modes,
    /// NBD server, nbdkit and qemu-nbd, on memory and images; vhost-user server and qemu-storage-daemon
    Block,
    /// fio, qemu-img, guests and Python on Onego's librbd and on Ceph's, with the embedded cluster
    Capi,
    /// Clients and servers with metrics scraped each second, and without metrics
    Metrics,
    /// NFS client and server over TCP, libnfs, and nfs-ganesha with its file system in memory
    Nfs,
}

fn main() {
    if let Err(error) = run(Options::parse()) {
        eprintln!("compare: {error:#}");
        std::process::exit(1);
    }
}

fn run(options: Options) -> Result<()> {
    let onego = match &options.onego {
        Some(program) => existing(program)?,
        None => build("--release --package onego-cli --features rdma-core", "release/onego")?,
    };
    let name = options.comparison.to_possible_value().context("a comparison has a name")?;
    let session = Session { folder: format!("compare-{}", name.get_name()), onego, options };
    let rows = match session.options.comparison {
        Comparison::Rbd => rbd::compare(&session),
        Comparison::RbdFeatures => features::compare(&session),
        Comparison::Modes => rbd::compare_modes(&session),
        Comparison::Block => block::compare(&session),
        Comparison::Capi => capi::compare(&session),
        Comparison::Metrics => metrics::compare(&session),
        Comparison::Nfs => nfs::compare(&session),
    }?;
    if let Some(path) = &session.options.json {
        let lines: serde_json::Result<Vec<_>> = rows.iter().map(serde_json::to_string).collect();
        fs::write(path, lines?.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    // After an error the folders stay, for their logs.
    fs::remove_dir_all(workspace::target()?.join("sandbox").join(&session.folder))?;
    Ok(())
}

/// Options, the program under test, and the folder of the run's sandboxes.
struct Session {
    options: Options,
    onego: PathBuf,
    folder: String,
}

impl Session {
    /// Makes a sandbox for the build under test.
    fn sandbox(&self, name: &str, release: Release) -> Result<Sandbox> {
        Sandbox::new(&format!("{}/{name}", self.folder), release, &self.onego, LIMIT)
    }

    /// Returns the build under test and then the earlier ones, with their names in tables.
    fn builds(&self, ours: &str) -> Result<Vec<(String, PathBuf)>> {
        let earlier = self.options.baseline.iter().map(|program| {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            Ok((format!("{BASELINE} {name}"), existing(program)?))
        });
        std::iter::once(Ok((ours.to_owned(), self.onego.clone()))).chain(earlier).collect()
    }

    /// Makes a sandbox for each build.
    fn sandboxes_of_builds(&self, ours: &str) -> Result<Vec<(String, Sandbox)>> {
        let builds = self.builds(ours)?.into_iter().enumerate();
        let folder = |at| format!("{}/build-{at}", self.folder);
        let sandbox = |at, program: &Path| Sandbox::new(&folder(at), Release::Pacific, program, LIMIT);
        builds.map(|(at, (who, program))| Ok((who, sandbox(at, &program)?))).collect()
    }

    /// Returns a list of loads that last `--seconds`.
    fn loads(&self, list: &'static str) -> Vec<Load> {
        Load::list(list, self.options.seconds)
    }

    /// Returns the modes of `--modes`.
    fn modes<'a>(&'a self, default: &'a [Mode]) -> &'a [Mode] {
        if self.options.modes.is_empty() { default } else { &self.options.modes }
    }

    /// Returns the rows of all rounds, which are numbered from 0.
    fn rounds(&self, round: impl FnMut(usize) -> Result<Vec<Row>>) -> Result<Vec<Row>> {
        let rounds = (0..self.options.repeat as usize).map(round);
        Ok(rounds.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Measures loads once, each for a table titled with prefix and load.
    fn measure(
        &self,
        round: usize,
        prefix: &str,
        loads: &[Load],
        mut measure: impl FnMut(&Load) -> Result<Vec<Row>>,
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for load in loads {
            let title = format!("{prefix}{load}");
            sh::step(&format!("round {} of {}: {title}", round + 1, self.options.repeat));
            let measured = measure(load).with_context(|| title.clone())?;
            rows.extend(measured.into_iter().map(|row| Row { table: title.clone(), ..row }));
        }
        Ok(rows)
    }
}

/// Returns all of `builds`, each round with another one first: a machine may be slower right after another load.
fn in_turn<T>(builds: &[T], round: usize) -> impl Iterator<Item = &T> {
    builds.iter().cycle().skip(round % builds.len()).take(builds.len())
}

/// Starts an embedded cluster with an initialized pool `rbd`.
fn embedded_cluster(sandbox: &Sandbox, arguments: &str) -> Result<Server> {
    let cluster = Server::cluster(sandbox, arguments)?;
    sandbox.ceph("ceph osd pool create rbd 32")?;
    sandbox.ceph("rbd pool init rbd")?;
    Ok(cluster)
}

/// Builds a product of this tree in cargo's target folder, optimized as users get it.
fn build(arguments: &str, product: &str) -> Result<PathBuf> {
    sh::step(&format!("building {product}"));
    sh::run(workspace::cargo().args(["build", "--quiet"]).args(arguments.split(' ')))?;
    Ok(workspace::target()?.join(product))
}

fn existing(program: &Path) -> Result<PathBuf> {
    program.canonicalize().with_context(|| format!("no program {}", program.display()))
}
