//! Our client and server of files beside libnfs and nfs-ganesha, each with each, over TCP.

use super::report::{Figures, ratio};
use super::row::{Row, short_size};
use super::{FLOOR, Options};
use crate::cluster::{ADDRESS, Embedded, GANESHA_EXPORT, Ganesha, Home, Install, Release, Stage};
use crate::{interop, sh};
use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that puts a load on a file through libnfs.
const LIBNFS: &str = include_str!("libnfs.c");

/// Pattern, block size and depth. All of them find the file there: to make one is other work.
const LOADS: [(&str, u64, u32); 5] = [
    ("randread", 4 << 10, 32),
    ("randwrite", 4 << 10, 32),
    ("randread", 64 << 10, 16),
    ("read", 1 << 20, 8),
    ("rewrite", 1 << 20, 8),
];

/// Bytes of the file. nfs-ganesha remembers none of them, and reads what it makes up.
const SIZE: u64 = 64 << 20;

const OURS: &str = "onego on onego";
const LIBNFS_OURS: &str = "libnfs on onego";
const OURS_GANESHA: &str = "onego on nfs-ganesha";
const LIBNFS_GANESHA: &str = "libnfs on nfs-ganesha";

/// A row, and whose it is.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    who: &'static str,
    #[serde(flatten)]
    row: Row,
}

/// Measures every load, everybody after everybody else, round by round.
pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    let install = Install::find(Release::Pacific, home)?;
    let [ours, theirs] = ["compare-nfs-onego", "compare-nfs-ganesha"]
        .map(|name| Stage::new(home, name, &install, onego).map(|stage| (stage, name)));
    let ((ours, _), (theirs, _)) = (ours?, theirs?);
    let libnfs = build(&ours)?;
    let mut embedded = Embedded::start_nfs(&ours, "--mem")?;
    let ganesha = Ganesha::start(&theirs, 0)?;
    let to_ours = End {
        stage: &ours,
        url: format!("nfs://{ADDRESS}/export?nfsport=2049&mountport=2049"),
        pid: embedded.server().pid_in_namespace()?,
    };
    let to_ganesha =
        End { stage: &theirs, url: format!("nfs://{ADDRESS}{GANESHA_EXPORT}"), pid: ganesha.pid_on_stage()? };
    let mut taken = Vec::new();
    for round in 1..=options.repeat {
        for load in &LOADS {
            sh::step(&format!("round {round} of {}: {}", options.repeat, name(*load)));
            for row in to_ours.onego(*load, options.seconds)? {
                taken.push(Taken { who: if row.is_floor() { FLOOR } else { OURS }, row });
            }
            taken.push(Taken { who: LIBNFS_OURS, row: to_ours.libnfs(&libnfs, *load, options.seconds)? });
            let rows = to_ganesha.onego(*load, options.seconds)?.into_iter().filter(|row| !row.is_floor());
            taken.extend(rows.map(|row| Taken { who: OURS_GANESHA, row }));
            let row = to_ganesha.libnfs(&libnfs, *load, options.seconds)?;
            taken.push(Taken { who: LIBNFS_GANESHA, row });
        }
    }
    drop((embedded, ganesha));
    LOADS.iter().for_each(|load| print(&taken, *load));
    fs::remove_file(libnfs)?;
    [ours, theirs].into_iter().try_for_each(Stage::clear)?;
    Ok(taken)
}

/// Builds the program that uses libnfs.
fn build(stage: &Stage) -> Result<PathBuf> {
    let (source, program) = (stage.path("libnfs.c"), stage.cache("libnfs-load"));
    fs::write(&source, LIBNFS)?;
    sh::run(Command::new("gcc-12").args(["-O2", "-o"]).arg(&program).arg(&source).arg("-lnfs"))?;
    Ok(program)
}

/// A server, and where it is.
struct End<'a> {
    stage: &'a Stage,
    url: String,
    /// As those on the stage number it.
    pid: u32,
}

impl End<'_> {
    /// Our client's figures, and those of bare sockets.
    fn onego(&self, (rw, block_size, io_depth): (&str, u64, u32), seconds: u32) -> Result<Vec<Row>> {
        self.stage.onego(&format!(
            "bench nfs --server {} --server-pid {} --rw {rw} --block-size {block_size} --io-depth {io_depth} \
             --size {SIZE} --seconds {seconds} --json rows.json",
            self.url, self.pid
        ))?;
        let rows: Vec<Row> = interop::read_rows(&self.stage.path("rows.json"))?;
        ensure!(rows.iter().any(|row| !row.is_floor()), "`onego bench nfs` wrote no row of its own");
        Ok(rows)
    }

    /// libnfs's figures.
    fn libnfs(&self, program: &Path, load: (&str, u64, u32), seconds: u32) -> Result<Row> {
        let (rw, block_size, io_depth) = load;
        let line = format!("{} {rw} {block_size} {io_depth} {seconds} {SIZE} {}", self.url, self.pid);
        let said = sh::text(&mut self.stage.program(program, &line))?;
        serde_json::from_str(&said).with_context(|| format!("cannot read what libnfs's load says: {said}"))
    }
}

fn name((rw, block_size, io_depth): (&str, u64, u32)) -> String {
    format!("{} {rw}, depth {io_depth}", short_size(block_size))
}

/// Everybody's figures under one load, and the ratios that count.
fn print(taken: &[Taken], load: (&'static str, u64, u32)) {
    let of = |who: &str| {
        let of_load = |row: &&Row| (row.rw.as_str(), row.block_size) == (load.0, load.1);
        Figures::median(taken.iter().filter(|taken| taken.who == who).map(|taken| &taken.row).filter(of_load))
    };
    Figures::head(&name(load));
    for who in [OURS, LIBNFS_OURS, OURS_GANESHA, LIBNFS_GANESHA, FLOOR] {
        of(who).print(who);
    }
    let (ours, libnfs, ganesha, theirs) = (of(OURS), of(LIBNFS_OURS), of(OURS_GANESHA), of(LIBNFS_GANESHA));
    ratio("operations, both ours to both theirs", ours.iops, theirs.iops);
    ratio("client CPU, ours to libnfs, on our server", ours.client, libnfs.client);
    ratio("client CPU, ours to libnfs, on nfs-ganesha", ganesha.client, theirs.client);
    ratio("server CPU, ours to nfs-ganesha, for our client", ours.server, ganesha.server);
    ratio("server CPU, ours to nfs-ganesha, for libnfs", libnfs.server, theirs.server);
    ratio("operations, ours to the floor", ours.iops, of(FLOOR).iops);
}
