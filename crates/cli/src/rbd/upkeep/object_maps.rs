//! `onego rbd object-map`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt;
use crate::rbd::bar::Bar;
use onego::rbd::upkeep;

#[derive(clap::Subcommand)]
pub(crate) enum ObjectMapCommand {
    /// Compare the maps of an image and its snapshots with the objects
    #[command(after_help = "Example:\n  onego rbd object-map check rbd/disk")]
    Check(ObjectMapOptions),
    /// Make the maps of an image and its snapshots anew
    #[command(after_help = "Example:\n  onego rbd object-map rebuild rbd/disk")]
    Rebuild(ObjectMapOptions),
}

#[derive(clap::Args)]
pub(crate) struct ObjectMapOptions {
    #[command(flatten)]
    image: ImageWord,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn object_map(access: &Access, command: &ObjectMapCommand) -> Result<(), Failure> {
    match command {
        ObjectMapCommand::Check(options) => options.image.with(access, async |pool, name| {
            let bar = Bar::new("Object Map Check", !options.no_progress);
            if !upkeep::check_object_map(pool, name, |done, all| bar.at(done, all)).await? {
                // It is no failure, as Ceph's program has it.
                interrupt::say(
                    "the object map is wrong, and marked so: \"rbd object-map rebuild\" makes it anew",
                );
            }
            Ok(())
        }),
        ObjectMapCommand::Rebuild(options) => options.image.with(access, async |pool, name| {
            let bar = Bar::new("Object Map Rebuild", !options.no_progress);
            Ok(upkeep::rebuild_object_map(pool, name, |done, all| bar.at(done, all)).await?)
        }),
    }
}
