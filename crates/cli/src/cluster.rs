//! `onego cluster`: the embedded cluster.

mod conf_dir;
mod run;
mod start;

use crate::access::Access;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::metrics::MetricsOptions;
use crate::size;
use onego_cluster::MAX_OSDS;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run a monitor and in-memory OSDs until interrupted; without --data all data is lost then
    #[command(after_help = EXAMPLES)]
    Start(start::StartOptions),
    /// Run a cluster for one command, and end with the command
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunOptions),
    /// Stop a cluster of this machine, and wait until it has ended
    #[command(after_help = "Example:\n  onego cluster stop --conf-dir /tmp/onego")]
    Stop {
        /// The directory of its ceph.conf: --conf-dir, or --data, of the command that started it
        #[arg(long, value_name = "DIR")]
        conf_dir: PathBuf,
    },
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
  onego cluster start --conf-dir /tmp/onego --detach
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
pub(crate) struct ClusterOptions {
    /// Where to listen; the port is the monitor's, the one in --data or any free one if there is none
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1")]
    listen: Listen,
    /// Where the state is kept, so that it is there at the next start: what is acknowledged is durable. Made if it does not
    /// exist. Data is held in memory all the same
    #[arg(long, value_name = "DIR", conflicts_with = "null_writes")]
    data: Option<PathBuf>,
    /// Directory for ceph.conf, which is removed when a cluster without --data ends [default: the directory of --data, or a
    /// new one]
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
    match command {
        Command::Start(options) => start::run(access, options),
        Command::Run(options) => run::run(access, options),
        Command::Stop { conf_dir } => conf_dir::stop(&conf_dir),
        Command::Osd(command) => control(access, &command),
    }
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
