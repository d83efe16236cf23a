//! The attacks on the memory of a server that runs on a stage.

mod attack;
mod cluster;
mod messenger;
mod nfs;

use anyhow::Result;
use attack::{Memory, measure_all};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use cluster::run as run_on_cluster;
pub(crate) use nfs::run as run_on_nfs;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server's process
    pid: u32,
    /// Only attacks with this in their name
    #[arg(long, default_value = "")]
    only: String,
    #[command(subcommand)]
    server: AttackedServer,
}

#[derive(clap::Subcommand)]
enum AttackedServer {
    /// A server of NFS
    Nfs { address: SocketAddr },
    /// An OSD of an embedded cluster, and the program that is its honest client
    Cluster { address: SocketAddr, onego: PathBuf },
}

/// Carries the attacks out, in the server's network and process namespace.
pub(crate) fn attack(options: &Options) -> Result<()> {
    let (memory, only) = (Memory(options.pid), options.only.as_str());
    match &options.server {
        AttackedServer::Nfs { address } => measure_all(nfs::AttackedServer::new(*address)?, &memory, only),
        AttackedServer::Cluster { address, onego } => {
            measure_all(cluster::Osd::new(*address, onego)?, &memory, only)
        }
    }
}
