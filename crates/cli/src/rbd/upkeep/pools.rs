//! `onego rbd pool`.

use super::trash::PoolWord;
use crate::access::Access;
use crate::failure::Failure;
use onego::rbd::pools;

#[derive(clap::Subcommand)]
pub(crate) enum RbdPoolCommand {
    /// Give a pool the application "rbd", and check that it takes images
    #[command(after_help = "Example:\n  onego rbd pool init rbd")]
    Init {
        #[command(flatten)]
        place: PoolWord,
        /// Do so even if the pool has another application
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn pool(access: &Access, command: &RbdPoolCommand) -> Result<(), Failure> {
    let RbdPoolCommand::Init { place, force } = command;
    access.with_cluster(async |cluster| Ok(pools::init(&place.place().open(cluster).await?, *force).await?))
}
