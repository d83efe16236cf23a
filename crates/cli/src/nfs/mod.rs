//! `onego nfs`: NFS version 3.

mod serve;

use crate::access::Access;
use crate::failure::Failure;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Serve a file system in memory until interrupted; all of it is lost then
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Options),
}

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(options) => serve::run(access, options),
    }
}
