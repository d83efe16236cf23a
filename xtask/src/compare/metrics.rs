//! What it costs to be watched: our clients and servers while both are scraped each second, and while nobody asks.

use super::builds::in_turn;
use super::load::{Load, short_size};
use super::mode::Mode;
use super::options::Options;
use super::report::{Figures, round_by_round};
use super::row::{Row, Taken};
use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Embedded, Home, Install, Release, Stage};
use crate::interop::{self, ensure_pool};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;

const WATCHED: &str = "watched";
const ALONE: &str = "alone";

/// What is measured: a client, and the pattern, block size and depth of its requests.
const RBD_LOADS: [(&str, u64, u32); 3] =
    [("randread", 4 << 10, 128), ("randwrite", 4 << 10, 128), ("randread", 64 << 10, 32)];
const NFS_LOADS: [(&str, u64, u32); 2] = [("randread", 4 << 10, 32), ("randwrite", 4 << 10, 32)];

/// Bytes of the image and of the file.
const SIZE: &str = "64M";

/// Where servers and clients tell of themselves.
const CLUSTER: u16 = 9719;
const FILES: u16 = 9720;
const CLIENT: u16 = 9721;

/// Asks all ports each second, as Prometheus does at the most, and says how many pages it got. There is not always a client.
const SCRAPER: &str = r"
import sys, time, urllib.request

pages = 0
while True:
    for port in sys.argv[2:]:
        try:
            with urllib.request.urlopen(f'http://{sys.argv[1]}:{port}/metrics', timeout=5) as page:
                pages += bool(page.read())
        except OSError:
            pass
    with open('pages', 'w') as file:
        print(pages, file=file)
    time.sleep(1)
";

/// Measures every load on both, in turn and round by round.
pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    let install = Install::find(Release::Pacific, home)?;
    let [watched, alone] = ["compare-metrics-watched", "compare-metrics-alone"]
        .map(|name| Stage::new(home, name, &install, onego));
    let (watched, alone) = (watched?, alone?);
    let load = |(rw, block_size, io_depth)| Load { mode: Mode::Crc, rw, block_size, jobs: 1, io_depth };
    let mut taken = Vec::new();
    for round in 1..=options.repeat {
        // New ones each time: two processes of one program differ by some percent, by where their memory happens to be.
        let beds = [Bed::start(&watched, true)?, Bed::start(&alone, false)?];
        for load in RBD_LOADS.map(load) {
            sh::step(&format!("round {round} of {}: {load}", options.repeat));
            for bed in in_turn(&beds, round) {
                let line = format!("-c ceph.conf bench rbd --server-pid {}", bed.cluster);
                taken.push(bed.measure(&line, &load, options.seconds)?);
            }
        }
        for load in NFS_LOADS.map(load) {
            sh::step(&format!("round {round} of {}: nfs, {load}", options.repeat));
            for bed in in_turn(&beds, round) {
                let url = format!("nfs://{ADDRESS}/export?nfsport=2049&mountport=2049");
                let line = format!("bench nfs --server {url} --server-pid {}", bed.files);
                taken.push(bed.measure(&line, &load, options.seconds)?);
            }
        }
        beds[0].has_been_watched(u64::from(options.seconds))?;
    }
    [watched, alone].into_iter().try_for_each(Stage::clear)?;
    RBD_LOADS.map(load).iter().for_each(|load| print(&taken, "rbd", load));
    NFS_LOADS.map(load).iter().for_each(|load| print(&taken, "nfs", load));
    Ok(taken)
}

/// A cluster and a server of files, both of ours.
struct Bed<'a> {
    stage: &'a Stage,
    is_watched: bool,
    /// The servers' processes, as those on the stage number them.
    cluster: u32,
    files: u32,
    _servers: [Embedded; 2],
    _scraper: Option<Daemon>,
}

impl<'a> Bed<'a> {
    fn start(stage: &'a Stage, is_watched: bool) -> Result<Self> {
        let metrics = |port| if is_watched { format!("--metrics {ADDRESS}:{port}") } else { String::new() };
        let mut cluster = Embedded::start(stage, &format!("--memory 1G --auth none {}", metrics(CLUSTER)))?;
        let mut files = Embedded::start_nfs(stage, &format!("--mem --insecure {}", metrics(FILES)))?;
        ensure_pool(stage)?;
        let scrape = || {
            fs::write(stage.path("scraper.py"), SCRAPER)?;
            let line = format!("scraper.py {ADDRESS} {CLUSTER} {FILES} {CLIENT}");
            Daemon::spawn(
                "the scraper",
                stage.program(Path::new("python3"), &line),
                &stage.path("scraper.out"),
            )
        };
        let (cluster_pid, files_pid) =
            (cluster.server().pid_in_namespace()?, files.server().pid_in_namespace()?);
        let scraper = is_watched.then(scrape).transpose()?;
        Ok(Self {
            stage,
            is_watched,
            cluster: cluster_pid,
            files: files_pid,
            _servers: [cluster, files],
            _scraper: scraper,
        })
    }

    /// Puts a load on one of the servers by a line of our program.
    fn measure(&self, line: &str, load: &Load, seconds: u32) -> Result<Taken> {
        let metrics = if self.is_watched { format!("--metrics {ADDRESS}:{CLIENT}") } else { String::new() };
        self.stage.onego(&format!(
            "{line} --rw {} --block-size {} --io-depth {} --size {SIZE} --seconds {seconds} --no-floor --json \
             rows.json {metrics}",
            load.rw, load.block_size, load.io_depth
        ))?;
        let row: Row = interop::read_rows(&self.stage.path("rows.json"))?.pop().context("there is no row")?;
        let who = if self.is_watched { WATCHED } else { ALONE };
        Ok(Taken { who: who.to_owned(), load: *load, row })
    }

    /// Both servers were asked each second, at the least during the loads, of which each lasts so long.
    fn has_been_watched(&self, seconds: u64) -> Result<()> {
        let pages: u64 = fs::read_to_string(self.stage.path("pages"))?.trim().parse()?;
        let loads = (RBD_LOADS.len() + NFS_LOADS.len()) as u64;
        ensure!(
            pages >= 2 * loads * seconds,
            "in {loads} loads of {seconds} s only {pages} pages were scraped"
        );
        Ok(())
    }
}

fn print(taken: &[Taken], bench: &str, load: &Load) {
    let size = short_size(load.block_size);
    Figures::head(&format!("{bench}, {size} {}, depth {}", load.rw, load.io_depth));
    let [watched, alone] = [WATCHED, ALONE].map(|who| {
        let of = |taken: &&Taken| taken.load == *load && taken.who == who && taken.row.bench == bench;
        let rows: Vec<&Row> = taken.iter().filter(of).map(|taken| &taken.row).collect();
        Figures::median(rows.iter().copied()).print(who);
        rows
    });
    round_by_round(WATCHED, ALONE, &watched, &alone);
}
