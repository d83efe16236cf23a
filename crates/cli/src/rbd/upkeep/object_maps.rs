//! `onego rbd object-map`.

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt;
use crate::rbd::bar::Bar;
use crate::rbd::names::{Snap, SnapOptions};
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
    /// The image with all of its snapshots, or a snapshot: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    #[arg(value_name = "IMAGE")]
    word: Option<String>,
    #[command(flatten)]
    options: SnapOptions,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn object_map(access: &Access, command: &ObjectMapCommand) -> Result<(), Failure> {
    let (ObjectMapCommand::Check(options) | ObjectMapCommand::Rebuild(options)) = command;
    let named = options.options.named(options.word.as_deref(), Snap::May)?;
    access.with_cluster(async |cluster| {
        let (pool, snap) = (named.pool(cluster).await?, named.snap.as_deref());
        if let ObjectMapCommand::Check(_) = command {
            let bar = Bar::new("Object Map Check", !options.no_progress);
            if !upkeep::check_object_map(&pool, &named.name, snap, |done, all| bar.at(done, all)).await? {
                // It is no failure, as Ceph's program has it.
                interrupt::say(
                    "the object map is wrong, and marked so: \"rbd object-map rebuild\" makes it anew",
                );
            }
            return Ok(());
        }
        let bar = Bar::new("Object Map Rebuild", !options.no_progress);
        Ok(upkeep::rebuild_object_map(&pool, &named.name, snap, |done, all| bar.at(done, all)).await?)
    })
}
