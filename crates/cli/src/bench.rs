//! `onego bench`.

mod block;
pub(crate) mod embedded;
mod loads;
mod msgr;
mod nfs;
pub(crate) mod outputs;
pub(crate) mod parts;
mod rbd;
pub(crate) mod report;
pub(crate) mod zc;

use crate::access::Access;
use crate::failure::Failure;
use crate::process::die_with_parent;
use onego_bench::floor;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Measure loads on an image, CPU included
    #[command(after_help = rbd::EXAMPLES)]
    Rbd(rbd::Options),
    /// Measure reads and writes of a file on an NFS server, CPU included
    #[command(after_help = nfs::EXAMPLES)]
    Nfs(nfs::Options),
    /// Measure what a block layer costs: I/Os that go down whole, and I/Os cut to pages with a header each
    #[command(after_help = block::EXAMPLES)]
    Block(block::Options),
    /// Measure sends that copy and sends that do not: UDP to a sink, TCP over loopback and veth
    #[command(after_help = zc::EXAMPLES)]
    Zc(zc::Options),
    /// The receiving half of the measurement of sends
    #[command(hide = true)]
    ZcReceiver {
        /// Where to listen
        addr: std::net::IpAddr,
    },
    /// Measure the messenger alone, with no storage behind it
    #[command(after_help = msgr::EXAMPLES)]
    Msgr(msgr::Options),
    /// The serving half of the measurement of bare sockets
    #[command(hide = true)]
    FloorServer {
        /// How many clients to serve
        clients: u32,
        /// Connections of each
        connections: u32,
    },
    /// The serving half of the measurement of the messenger
    #[command(hide = true)]
    MsgrServer(msgr::ServerOptions),
}

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    match command {
        Command::Rbd(options) => rbd::run(access, &options),
        Command::Nfs(options) => nfs::run(access, &options),
        Command::Block(options) => block::run(access, &options),
        Command::Zc(options) => zc::run(&options),
        Command::ZcReceiver { addr } => {
            die_with_parent()?;
            onego_bench::zc::receive(addr).map_err(Failure::io("receiving what is sent"))
        }
        Command::Msgr(options) => msgr::run(access, &options),
        Command::MsgrServer(options) => msgr::serve(access, &options),
        Command::FloorServer { clients, connections } => {
            die_with_parent()?;
            floor::serve(clients, connections).map_err(Failure::io("serving bare sockets"))
        }
    }
}
