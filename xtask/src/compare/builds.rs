//! Builds of the program, this one and earlier ones, and how one is measured.

use super::load::{IMAGE_MIB, Load};
use super::options::Options;
use super::row::{Row, Taken};
use super::subject::{BASELINE, FLOOR};
use crate::cluster::{Home, Install, Stage};
use crate::interop;
use anyhow::{Context as _, Result, ensure};
use std::path::PathBuf;

/// Stages for the earlier builds, with what the report calls them.
pub(super) fn baselines(
    options: &Options,
    home: &Home,
    install: &Install,
    name: &str,
) -> Result<Vec<(String, Stage)>> {
    let stage = |(at, program): (usize, &PathBuf)| {
        let program = program.canonicalize().with_context(|| format!("no program {}", program.display()))?;
        let who = format!("{} {}", BASELINE, program.file_name().unwrap_or_default().to_string_lossy());
        Ok((who, Stage::new(home, &format!("{name}-baseline-{at}"), install, &program)?))
    };
    options.baseline.iter().enumerate().map(stage).collect()
}

/// Builds take turns at being the first: the machine may be slower right after another load.
pub(super) fn in_turn<T>(builds: &[T], round: u32) -> impl Iterator<Item = &T> {
    let first = round as usize % builds.len();
    builds.iter().cycle().skip(first).take(builds.len())
}

/// `onego bench rbd` with the cluster as its child, and the floor that it measures beside unless `more` says no.
pub(super) fn ours(stage: &Stage, who: &str, load: &Load, seconds: u32, more: &str) -> Result<Vec<Taken>> {
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
