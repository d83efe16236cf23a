//! Cost of metrics: clients and servers that are scraped each second next to the same without metrics.

use crate::clients::onego_bench;
use crate::row::{Load, Row};
use crate::{Session, embedded_cluster, in_turn, report};
use anyhow::{Result, ensure};
use onego_sandbox::{ADDRESS, Daemon, Release, Sandbox, Server};

const WATCHED: &str = "watched";
const ALONE: &str = "alone";

/// Loads by the benchmark that runs them.
const LOADS: [(&str, &str); 2] =
    [("rbd", "randread 4 128, randwrite 4 128, randread 64 32"), ("nfs", "randread 4 32, randwrite 4 32")];

/// Ports of the metrics of servers and clients.
const CLUSTER: u16 = 9719;
const FILES: u16 = 9720;
const CLIENT: u16 = 9721;

const SCRAPER: &str = include_str!("scraper.py");

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let seconds = session.options.seconds;
    let [watched, alone] = [WATCHED, ALONE].map(|name| session.sandbox(name, Release::Pacific));
    let (watched, alone) = (watched?, alone?);
    let rows = session.rounds(|round| {
        // Processes of one program differ by some percent, as their memory happens to lie, so each round has new ones.
        let pairs = [Servers::start(&watched, WATCHED)?, Servers::start(&alone, ALONE)?];
        let mut rows = Vec::new();
        for (bench, loads) in LOADS {
            rows.extend(session.measure(round, &format!("{bench}, "), &session.loads(loads), |load| {
                let measured = in_turn(&pairs, round).map(|servers| servers.measure(bench, load));
                Ok(measured.collect::<Result<Vec<_>>>()?.concat())
            })?);
        }
        let pages: u64 = watched.read("pages")?.trim().parse()?;
        // Two servers are scraped each second, at least during the loads.
        let due = rows.len() as u64 * u64::from(seconds);
        ensure!(pages >= due, "{pages} scraped pages are fewer than {due} in loads of {seconds} s");
        Ok(rows)
    })?;
    report::print(&rows, |table| table.round_by_round(WATCHED, WATCHED, ALONE));
    Ok(rows)
}

/// An embedded cluster and an NFS server.
struct Servers<'a> {
    sandbox: &'a Sandbox,
    who: &'static str,
    /// Process numbers in the sandbox.
    cluster: u32,
    files: u32,
    _servers: [Server; 2],
    _scraper: Option<Daemon>,
}

impl<'a> Servers<'a> {
    fn start(sandbox: &'a Sandbox, who: &'static str) -> Result<Self> {
        let memory = "--memory 1G --auth none";
        let mut cluster = embedded_cluster(sandbox, &format!("{memory} {}", metrics(who, CLUSTER)))?;
        let mut files = Server::nfs(sandbox, &format!("--mem --insecure {}", metrics(who, FILES)))?;
        let scrape = || {
            sandbox.write("scraper.py", SCRAPER)?;
            let line = format!("python3 scraper.py {ADDRESS} {CLUSTER} {FILES} {CLIENT}");
            Daemon::spawn("scraper", sandbox.ceph_daemon(&line), &sandbox.path("scraper.out"))
        };
        Ok(Self {
            sandbox,
            who,
            cluster: cluster.daemon().pid_in_namespace()?,
            files: files.daemon().pid_in_namespace()?,
            _servers: [cluster, files],
            _scraper: (who == WATCHED).then(scrape).transpose()?,
        })
    }

    fn measure(&self, bench: &str, load: &Load) -> Result<Vec<Row>> {
        let Self { sandbox, who, cluster, files, .. } = self;
        let server = match bench {
            "rbd" => format!("-c ceph.conf bench rbd --server-pid {cluster}"),
            _ => {
                let url = format!("nfs://{ADDRESS}/export?nfsport=2049&mountport=2049");
                format!("bench nfs --server {url} --server-pid {files}")
            }
        };
        let (load, metrics) = (load.options(), metrics(who, CLIENT));
        let line = format!("{server} {load} --size 64M --no-floor {metrics}");
        onego_bench(sandbox, who, &line)
    }
}

fn metrics(who: &str, port: u16) -> String {
    if who == WATCHED { format!("--metrics {ADDRESS}:{port}") } else { String::new() }
}
