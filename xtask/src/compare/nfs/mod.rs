//! Our client and server of files beside libnfs and nfs-ganesha, each with each, over TCP.

use crate::cluster::{ADDRESS, Embedded, GANESHA_EXPORT, Ganesha, Home, Install, Release, Stage};
use crate::compare::builds::{baselines, in_turn};
use crate::compare::load::short_size;
use crate::compare::options::Options;
use crate::compare::report::{Figures, ratio, round_by_round};
use crate::compare::row::Row;
use crate::compare::subject::{BASELINE, FLOOR};
use crate::{interop, sh};
use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that puts a load on a file through libnfs.
const LIBNFS: &str = include_str!("libnfs.c");

/// Pattern, block size and depth.
type Pattern = (&'static str, u64, u32);

/// All of them find the file there: to make one is other work.
const LOADS: [Pattern; 5] = [
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
    who: String,
    #[serde(flatten)]
    row: Row,
}

/// Measures every load, everybody after everybody else, round by round.
pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    let install = Install::find(Release::Pacific, home)?;
    let stage = |name| Stage::new(home, name, &install, onego);
    let (ours, theirs) = (stage("compare-nfs-onego")?, stage("compare-nfs-ganesha")?);
    let mut builds = vec![(OURS.to_owned(), ours)];
    builds.extend(baselines(options, home, &install, "compare-nfs")?);
    let servers: Vec<Served<'_>> =
        builds.iter().map(|(who, stage)| Served::start(who, stage)).collect::<Result<_>>()?;
    let mut peers = match options.no_peers {
        true => None,
        false => Some(Peers::start(&builds[0].1, &theirs)?),
    };

    let mut taken = Vec::new();
    for round in 1..=options.repeat {
        for load in &LOADS {
            sh::step(&format!("round {round} of {}: {}", options.repeat, name(*load)));
            for server in in_turn(&servers, round) {
                let rows = server.end.onego(*load, options.seconds)?;
                taken.extend(rows.into_iter().filter_map(|row| server.taken(row, options)));
            }
            if let Some(peers) = &mut peers {
                taken.extend(peers.measure(&servers[0].end, *load, options.seconds)?);
            }
        }
    }
    drop((servers, peers));
    LOADS.iter().for_each(|load| print(&taken, *load));
    builds.into_iter().map(|(_, stage)| stage).chain([theirs]).try_for_each(Stage::clear)?;
    Ok(taken)
}

/// A build of ours that serves, and is its own client.
struct Served<'a> {
    who: &'a str,
    end: ServerEnd<'a>,
    _server: Embedded,
}

impl<'a> Served<'a> {
    fn start(who: &'a str, stage: &'a Stage) -> Result<Self> {
        let mut server = Embedded::start_nfs(stage, "--mem")?;
        let url = format!("nfs://{ADDRESS}/export?nfsport=2049&mountport=2049");
        let end = ServerEnd { stage, url, pid: server.server().pid_in_namespace()? };
        Ok(Self { who, end, _server: server })
    }

    /// Whose a row is. The floor is taken once, beside our newest build, where peers are measured.
    fn taken(&self, row: Row, options: &Options) -> Option<Taken> {
        let who = match row.is_floor() {
            false => self.who,
            true if self.who == OURS && !options.no_peers => FLOOR,
            true => return None,
        };
        Some(Taken { who: who.to_owned(), row })
    }
}

/// libnfs and nfs-ganesha.
struct Peers<'a> {
    libnfs: PathBuf,
    to_ganesha: ServerEnd<'a>,
    _ganesha: Ganesha,
}

impl<'a> Peers<'a> {
    fn start(ours: &Stage, theirs: &'a Stage) -> Result<Self> {
        let libnfs = build(ours)?;
        let ganesha = Ganesha::start(theirs, 0)?;
        let to_ganesha = ServerEnd {
            stage: theirs,
            url: format!("nfs://{ADDRESS}{GANESHA_EXPORT}"),
            pid: ganesha.pid_on_stage()?,
        };
        Ok(Self { libnfs, to_ganesha, _ganesha: ganesha })
    }

    fn measure(&mut self, to_ours: &ServerEnd<'_>, load: Pattern, seconds: u32) -> Result<Vec<Taken>> {
        let taken = |who: &str, row| Taken { who: who.to_owned(), row };
        let mut all = vec![taken(LIBNFS_OURS, to_ours.libnfs(&self.libnfs, load, seconds)?)];
        let rows = self.to_ganesha.onego(load, seconds)?.into_iter().filter(|row| !row.is_floor());
        all.extend(rows.map(|row| taken(OURS_GANESHA, row)));
        all.push(taken(LIBNFS_GANESHA, self.to_ganesha.libnfs(&self.libnfs, load, seconds)?));
        Ok(all)
    }
}

impl Drop for Peers<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.libnfs);
    }
}

/// Builds the program that uses libnfs.
fn build(stage: &Stage) -> Result<PathBuf> {
    let (source, program) = (stage.path("libnfs.c"), stage.cache("libnfs-load"));
    fs::write(&source, LIBNFS)?;
    sh::run(Command::new("gcc-12").args(["-O2", "-o"]).arg(&program).arg(&source).arg("-lnfs"))?;
    Ok(program)
}

/// A server, and where it is.
struct ServerEnd<'a> {
    stage: &'a Stage,
    url: String,
    /// As those on the stage number it.
    pid: u32,
}

impl ServerEnd<'_> {
    /// Our client's figures, and those of bare sockets.
    fn onego(&self, (rw, block_size, io_depth): Pattern, seconds: u32) -> Result<Vec<Row>> {
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
    fn libnfs(&self, program: &Path, load: Pattern, seconds: u32) -> Result<Row> {
        let (rw, block_size, io_depth) = load;
        let line = format!("{} {rw} {block_size} {io_depth} {seconds} {SIZE} {}", self.url, self.pid);
        let said = sh::text(&mut self.stage.program(program, &line))?;
        serde_json::from_str(&said).with_context(|| format!("cannot read what libnfs's load says: {said}"))
    }
}

fn name((rw, block_size, io_depth): Pattern) -> String {
    format!("{} {rw}, depth {io_depth}", short_size(block_size))
}

/// Everybody's figures under one load, and the ratios that count.
fn print(taken: &[Taken], load: Pattern) {
    let rows = |who: &str| -> Vec<&Row> {
        let of_load = |row: &&Row| (row.rw.as_str(), row.block_size) == (load.0, load.1);
        taken.iter().filter(|taken| taken.who == who).map(|taken| &taken.row).filter(of_load).collect()
    };
    let of = |who: &str| Figures::median(rows(who).into_iter());
    let mut builds: Vec<&str> = Vec::new();
    for taken in taken.iter().filter(|taken| taken.who.starts_with(BASELINE)) {
        if !builds.contains(&taken.who.as_str()) {
            builds.push(&taken.who);
        }
    }
    Figures::head(&name(load));
    let peers = [LIBNFS_OURS, OURS_GANESHA, LIBNFS_GANESHA, FLOOR];
    for who in [OURS].iter().chain(&builds).chain(&peers).filter(|who| !rows(who).is_empty()) {
        of(who).print(who);
    }
    for who in &builds {
        round_by_round("ours", who, &rows(OURS), &rows(who));
    }
    let (ours, libnfs, ganesha, theirs) = (of(OURS), of(LIBNFS_OURS), of(OURS_GANESHA), of(LIBNFS_GANESHA));
    ratio("operations, both ours to both theirs", ours.iops, theirs.iops);
    ratio("client CPU, ours to libnfs, on our server", ours.client, libnfs.client);
    ratio("client CPU, ours to libnfs, on nfs-ganesha", ganesha.client, theirs.client);
    ratio("server CPU, ours to nfs-ganesha, for our client", ours.server, ganesha.server);
    ratio("server CPU, ours to nfs-ganesha, for libnfs", libnfs.server, theirs.server);
    ratio("operations, ours to the floor", ours.iops, of(FLOOR).iops);
}
