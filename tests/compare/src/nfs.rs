//! NFS client and server next to libnfs and nfs-ganesha, each client with each server, over TCP.

use crate::clients::onego_bench;
use crate::report::{self, CLIENT, IOPS, SERVER};
use crate::row::{FLOOR, Load, Row};
use crate::{Session, in_turn};
use anyhow::{Context as _, Result};
use onego_sandbox::{ADDRESS, Ganesha, Release, Sandbox, Server};

/// A load on a file through libnfs, and its path in all sandboxes.
const LIBNFS: &str = include_str!("libnfs.c");
const LIBNFS_LOAD: &str = "../ganesha/libnfs-load";

/// All of them find the file complete: creating one is other work.
const LOADS: &str = "randread 4 32, randwrite 4 32, randread 64 16, read 1024 8, rewrite 1024 8";

/// Bytes of the file. nfs-ganesha keeps none of them here and answers reads with made-up data.
const SIZE: u64 = 64 << 20;

const OURS: &str = "onego on onego";
const LIBNFS_OURS: &str = "libnfs on onego";
const OURS_GANESHA: &str = "onego on nfs-ganesha";
const LIBNFS_GANESHA: &str = "libnfs on nfs-ganesha";

pub(crate) fn compare(session: &Session) -> Result<Vec<Row>> {
    let peers = !session.options.no_peers;
    let builds = session.sandboxes_of_builds(OURS)?;
    let servers = builds.iter().map(|(who, sandbox)| Ok((who.as_str(), Served::start(sandbox)?)));
    let servers: Vec<(&str, Served<'_>)> = servers.collect::<Result<_>>()?;
    let sandbox = session.sandbox("ganesha", Release::Pacific)?;
    let ganesha = peers.then(|| start_ganesha(&sandbox)).transpose()?;
    let rows = session.rounds(|round| {
        session.measure(round, "", &session.loads(LOADS), |load| {
            let mut rows = Vec::new();
            for (who, served) in in_turn(&servers, round) {
                let floor = if *who == OURS && peers { "" } else { "--no-floor" };
                rows.extend(served.onego(who, load, floor)?);
            }
            if let Some((ganesha, _)) = &ganesha {
                rows.push(servers[0].1.libnfs(LIBNFS_OURS, load)?);
                rows.extend(ganesha.onego(OURS_GANESHA, load, "--no-floor")?);
                rows.push(ganesha.libnfs(LIBNFS_GANESHA, load)?);
            }
            Ok(rows)
        })
    })?;
    report::print(&rows, |table| {
        table.ratios(&[
            ("operations, both ours to both theirs", IOPS, OURS, LIBNFS_GANESHA),
            ("client CPU, ours to libnfs, on our server", CLIENT, OURS, LIBNFS_OURS),
            ("client CPU, ours to libnfs, on nfs-ganesha", CLIENT, OURS_GANESHA, LIBNFS_GANESHA),
            ("server CPU, ours to nfs-ganesha, for our client", SERVER, OURS, OURS_GANESHA),
            ("server CPU, ours to nfs-ganesha, for libnfs", SERVER, LIBNFS_OURS, LIBNFS_GANESHA),
            ("operations, ours to the floor", IOPS, OURS, FLOOR),
        ]);
    });
    Ok(rows)
}

/// An export, and its server's process.
struct Served<'a> {
    sandbox: &'a Sandbox,
    url: String,
    /// In the sandbox's numbering.
    pid: u32,
    _server: Option<Server>,
}

impl<'a> Served<'a> {
    fn start(sandbox: &'a Sandbox) -> Result<Self> {
        let mut server = Server::nfs(sandbox, "--mem")?;
        let url = format!("nfs://{ADDRESS}/export?nfsport=2049&mountport=2049");
        Ok(Self { sandbox, url, pid: server.daemon().pid_in_namespace()?, _server: Some(server) })
    }

    fn onego(&self, who: &str, load: &Load, more: &str) -> Result<Vec<Row>> {
        let Self { sandbox, url, pid, .. } = self;
        let load = load.options();
        onego_bench(
            sandbox,
            who,
            &format!("bench nfs --server {url} --server-pid {pid} {load} --size {SIZE} {more}"),
        )
    }

    fn libnfs(&self, who: &str, load: &Load) -> Result<Row> {
        let Self { sandbox, url, pid, .. } = self;
        let Load { rw, block_size, io_depth, seconds, .. } = load;
        let said = sandbox
            .tool(&format!("{LIBNFS_LOAD} {url} {rw} {block_size} {io_depth} {seconds} {SIZE} {pid}"))?;
        let row: Row = serde_json::from_str(&said).with_context(|| format!("cannot parse row {said}"))?;
        Ok(Row { who: who.to_owned(), ..row })
    }
}

/// Starts nfs-ganesha and builds the load for libnfs.
fn start_ganesha(sandbox: &Sandbox) -> Result<(Served<'_>, Ganesha)> {
    sandbox.write("libnfs.c", LIBNFS)?;
    sandbox.tool(&format!("gcc-12 -O2 -o {LIBNFS_LOAD} libnfs.c -lnfs"))?;
    let ganesha = Ganesha::start(sandbox, 0)?;
    let url = format!("nfs://{ADDRESS}{}", Ganesha::EXPORT);
    Ok((Served { sandbox, url, pid: ganesha.daemon().pid_in_namespace()?, _server: None }, ganesha))
}
