//! `onego export`: devices for programs and hosts that speak a protocol of block devices.

mod limits;
mod listen;
mod nbd;
mod reactor;
mod served;
mod tls;
mod vhost_user;

use crate::access::Access;
use crate::failure::Failure;

/// What is exported how.
#[derive(clap::Subcommand)]
pub(crate) enum ExportCommand {
    /// Serve devices by NBD, the Network Block Device protocol
    #[command(after_help = nbd::examples())]
    Nbd(nbd::Options),
    /// Serve a device to a virtual machine as its disk, by vhost-user
    #[command(after_help = vhost_user::examples())]
    VhostUser(vhost_user::Options),
}

pub(crate) fn run(access: &Access, command: ExportCommand) -> Result<(), Failure> {
    match command {
        ExportCommand::Nbd(options) => nbd::run(access, options),
        ExportCommand::VhostUser(options) => vhost_user::run(access, options),
    }
}
