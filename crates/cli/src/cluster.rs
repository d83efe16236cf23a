//! `onego cluster`: the embedded cluster.

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::listen::Listen;
use crate::metrics::{Metrics, MetricsOptions};
use crate::output::{self, Format};
use crate::process::{self, die_with_parent};
use crate::size;
use onego::ceph::Versions;
use onego_bench::embedded::READY;
use onego_cluster::{Cluster, Config, KEYRING, Lifetimes, MAX_OSDS, NewPool};
use serde_json::json;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run a monitor and in-memory OSDs until interrupted; without --data all data is lost then
    #[command(after_help = EXAMPLES)]
    Start(StartOptions),
    /// Stop and start OSDs of a running cluster
    #[command(subcommand)]
    Osd(OsdCommand),
}

#[derive(clap::Subcommand)]
pub(crate) enum OsdCommand {
    /// Stop OSDs as if they were killed; what they hold stays
    #[command(after_help = OSD_EXAMPLES)]
    Stop(OsdOptions),
    /// Start OSDs that were stopped; they catch up with what they have missed
    #[command(after_help = OSD_EXAMPLES)]
    Start(OsdOptions),
}

#[derive(clap::Args)]
pub(crate) struct OsdOptions {
    /// Numbers of OSDs
    #[arg(required = true, value_name = "ID")]
    ids: Vec<u32>,
}

const OSD_EXAMPLES: &str = "\
Examples:
  onego -c /tmp/onego/ceph.conf cluster osd stop 1
  onego -c /tmp/onego/ceph.conf cluster osd start 1";

const EXAMPLES: &str = "\
Examples:
  onego cluster start --conf-dir /tmp/onego
  onego cluster start --listen 10.0.0.5:3300 --memory 4G --format json
  onego cluster start --conf-dir /tmp/onego --osds 3 --pool-size 2
  onego cluster start --data /var/lib/onego --listen 10.0.0.5:3300
  onego -c /tmp/onego/ceph.conf cluster osd stop 1
  onego cluster start --conf-dir /tmp/onego --auth cephx --messenger v2 --secure-only

Ceph's own programs work on it too:
  ceph -c /tmp/onego/ceph.conf -s
  rbd -c /tmp/onego/ceph.conf create disk --size 10G

A line that starts with \"ready:\" says that it serves, and where its ceph.conf is; with --format json one line of JSON does.";

#[derive(clap::Args)]
pub(crate) struct StartOptions {
    /// Where to listen; the port is the monitor's, the one in --data or any free one if there is none
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1")]
    listen: Listen,
    /// Where the state is kept, so that it is there at the next start: what is acknowledged is durable. Made if it does not
    /// exist. Data is held in memory all the same
    #[arg(long, value_name = "DIR", conflicts_with = "null_writes")]
    data: Option<PathBuf>,
    /// Where to write ceph.conf [default: the directory of --data, or a new one, gone when the cluster is]
    #[arg(long, value_name = "DIR")]
    conf_dir: Option<PathBuf>,
    /// Acknowledge writes and forget them; reads give zeros
    #[arg(long)]
    null_writes: bool,
    /// How many OSDs there are [default: 1, or as many as in --data]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_OSDS)))]
    osds: Option<u32>,
    /// Copies of each object in the pool "rbd" [default: 3, or as many as there are OSDs]
    #[arg(long, value_name = "COUNT")]
    pool_size: Option<u32>,
    /// Clients that are let in: none (all) or cephx (those with the key in the keyring beside ceph.conf) [default: none, or as
    /// in --data]
    #[arg(long, value_name = "METHOD", value_parser = ["none", "cephx"])]
    auth: Option<String>,
    /// How long the tickets of cephx are good, in seconds [default: an hour, and three days for monitors]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    auth_ticket_lifetime: Option<u32>,
    /// Let clients in only if their connections are encrypted; wants --auth cephx (or --data of such a cluster) and
    /// --messenger v2
    #[arg(long)]
    secure_only: bool,
    /// Bytes of data that each OSD takes; from 95 % on the cluster is full, and writes wait for room [default: 1G, or as in
    /// --data]
    #[arg(long, value_name = "LIMIT", value_parser = memory)]
    memory: Option<u64>,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// How to say that it serves
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// End when the program that started this one ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

/// The least memory of an OSD: a cluster with less is full before anything is written.
const LEAST_MEMORY: u64 = 1 << 20;

fn memory(text: &str) -> Result<u64, String> {
    match size::bytes(text)? {
        size if size < LEAST_MEMORY => {
            Err(format!("{text:?} is less than an OSD needs to hold anything, 1M"))
        }
        size => Ok(size),
    }
}

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    let options = match command {
        Command::Start(options) => options,
        Command::Osd(command) => return control(access, &command),
    };
    let osds = options.osds.unwrap_or(if options.data.is_some() { MAX_OSDS } else { 1 });
    if options.pool_size.is_some_and(|size| !(1..=osds).contains(&size)) {
        return Err(Failure::Usage(format!(
            "--pool-size must be from 1 to the number of OSDs, which is {osds}"
        )));
    }
    // Whether there are keys in a data directory is not known yet.
    let auth = options.auth.as_deref().or(options.data.is_none().then_some("none"));
    if options.secure_only && (auth == Some("none") || access.messenger != Versions::Two) {
        return Err(Failure::Usage("--secure-only wants --auth cephx --messenger v2".into()));
    }
    let ticket_lifetimes = options.auth_ticket_lifetime.map_or_else(Lifetimes::default, |seconds| {
        let lifetime = Duration::from_secs(seconds.into());
        Lifetimes { monitor: lifetime, service: lifetime }
    });
    if options.die_with_parent {
        die_with_parent()?;
    }
    access.refuse_cluster("a cluster that is started reads no configuration")?;
    let mut temporary = None;
    let mut clear = None;
    let conf_dir = match options.conf_dir.or(options.data.clone()) {
        Some(dir) => dir,
        None => {
            let dir = tempfile::Builder::new().prefix("onego-").tempdir();
            let dir = temporary.insert(dir.map_err(Failure::io("making a directory for ceph.conf"))?);
            let path = dir.path().to_owned();
            // A signal may come while the cluster starts.
            clear = Some(Unfinished::new({
                let path = path.clone();
                move || {
                    drop(std::fs::remove_dir_all(path));
                    None
                }
            }));
            path
        }
    };
    check_conf_dir(&conf_dir)?;
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let metrics = options.metrics.start()?;
    let mut config = Config::default()
        .with_listen(options.listen.ip)
        .with_versions(access.messenger)
        .with_mon_port(options.listen.with_default_port(0).port())
        .with_null_writes(options.null_writes)
        .with_ticket_lifetimes(ticket_lifetimes)
        .with_secure_only(options.secure_only)
        .with_pools(vec![NewPool { size: options.pool_size, ..NewPool::for_images("rbd") }])
        .with_engine(access.engine)
        .with_zero_copy(access.zero_copy()?)
        .with_spin(access.spin);
    config.memory_limit = options.memory;
    config.cephx = options.auth.map(|method| method == "cephx");
    config.data = options.data;
    config.compression = access.compression()?;
    config.osds = options.osds;
    let cluster = Cluster::start(config)?;
    let conf = cluster.write_conf(&conf_dir)?;
    metrics.registry().add(cluster.figures());
    process::is_up();
    metrics.ready();
    announce(&cluster, &conf, &metrics, options.format)?;
    if let Some(warning) = warning(options.listen.ip, cluster.keyring().is_some()) {
        interrupt::say(&warning);
    }
    let failure = cluster.failure();
    let served = process::serve((metrics.until_dropped(), cluster, metrics), failure, signals);
    drop(clear);
    served
}

/// Fails if the directory has the `ceph.conf` or the keyring of another cluster, which this one's would replace.
fn check_conf_dir(dir: &Path) -> Result<(), Failure> {
    let (conf, keyring) = (dir.join("ceph.conf"), dir.join(KEYRING));
    let foreign = |path: PathBuf| {
        let reason =
            "it is not of an embedded cluster, and would be replaced: name another directory by --conf-dir";
        Err(Failure::File { path, source: io::Error::new(io::ErrorKind::AlreadyExists, reason) })
    };
    match fs::read(&conf) {
        Ok(text) if !is_embedded(&text) => foreign(conf),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(&keyring) {
            Ok(_) => foreign(keyring),
            Err(_) => Ok(()),
        },
        // Making the directory tells what is wrong with it.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(source) => Err(Failure::File { path: conf, source }),
    }
}

/// Returns whether an embedded cluster wrote this `ceph.conf`. Users may have added to it.
fn is_embedded(text: &[u8]) -> bool {
    let defaults = "osd pool default pg num = 32\nosd pool default pgp num = 32\n";
    let text = String::from_utf8_lossy(text);
    text.is_empty() || text.starts_with("[global]\nfsid = ") && text.contains(defaults)
}

/// Says that the cluster serves, and where.
fn announce(cluster: &Cluster, conf: &Path, metrics: &Metrics, format: Format) -> Result<(), Failure> {
    let osds: Vec<String> = cluster.osd_addrs().iter().map(ToString::to_string).collect();
    if format == Format::Json {
        return output::json(&json!({
            "fsid": cluster.fsid().to_string(),
            "monitor": cluster.mon_addr().to_string(),
            "osds": osds,
            "conf": conf,
            "keyring": cluster.keyring().map(|_| conf.with_file_name(KEYRING)),
            "metrics": metrics.url(),
        }));
    }
    let conf = conf.display();
    if let Some(old) = cluster.old_mon_addr() {
        output::lines([format!(
            "the monitor was at {old} before: users of an older ceph.conf need this one (--listen ADDRESS:PORT keeps it)"
        )])?;
    }
    output::lines([
        format!("cluster {}", cluster.fsid()),
        format!(
            "monitor {}, OSD {}, {} of memory{}",
            cluster.mon_addr(),
            osds.join(" "),
            size::human(cluster.memory_limit()),
            if osds.len() > 1 { " each" } else { "" }
        ),
        format!("try: ceph -c {conf} -s"),
        format!("     onego -c {conf} rbd create disk --size 10G"),
    ])?;
    output::lines(metrics.line().into_iter().chain([format!("{READY} {conf}")]))
}

/// Warns where users may do more than people may think.
fn warning(listen: IpAddr, needs_key: bool) -> Option<String> {
    (!needs_key && !listen.is_loopback()).then(|| {
        format!(
            "warning: everybody who reaches {listen} may read, change and delete all data, and stop OSDs: --auth cephx lets \
             in only those who have the key"
        )
    })
}

/// Stops or starts OSDs, by a command to the monitor.
fn control(access: &Access, command: &OsdCommand) -> Result<(), Failure> {
    let (prefix, options) = match command {
        OsdCommand::Stop(options) => ("osd stop", options),
        OsdCommand::Start(options) => ("osd start", options),
    };
    let ids: Vec<String> = options.ids.iter().map(ToString::to_string).collect();
    let command = json!({ "prefix": prefix, "ids": ids }).to_string();
    access.with_cluster(async |cluster| {
        cluster.command(&command, Default::default()).await?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_lets_everybody_in_warns() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (listen, needs_key, warned) in [
            ("10.0.0.5", false, true),
            ("10.0.0.5", true, false),
            ("127.0.0.1", false, false),
            ("::1", false, false),
        ] {
            let said = warning(address(listen), needs_key);
            assert_eq!(said.is_some(), warned, "{listen}: {said:?}");
            assert!(said.is_none_or(|said| said.contains(listen) && said.contains("--auth cephx")));
        }
    }
}
