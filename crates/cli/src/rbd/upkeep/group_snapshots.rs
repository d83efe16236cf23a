//! `onego rbd group snap`.

use super::group_word::GroupWord;
use super::snapshots::QuiesceOptions;
use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::bar::Bar;
use crate::rbd::names::{Named, PoolOptions, Snap};
use crate::rbd::print::PrintOptions;
use crate::rbd::table::Alignment::{Left, Right};
use onego::rbd::pools;
use serde_json::{Value, json};

#[derive(clap::Subcommand)]
pub(crate) enum GroupSnapCommand {
    /// Make a snapshot of all images of a group
    #[command(after_help = "Example:\n  onego rbd group snap create rbd/web@monday")]
    Create {
        #[command(flatten)]
        snap: GroupSnapWord,
        #[command(flatten)]
        quiesce: QuiesceOptions,
    },
    /// Show the snapshots of a group
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd group snap ls rbd/web")]
    Ls {
        #[command(flatten)]
        group: GroupWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove a snapshot of a group
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd group snap rm rbd/web@monday")]
    Rm(GroupSnapWord),
    /// Give a snapshot of a group another name
    #[command(after_help = "Example:\n  onego rbd group snap rename rbd/web@monday start")]
    Rename {
        /// The snapshot, and its name from now on
        #[arg(value_names = ["SNAPSHOT", "NEW-SNAPSHOT"], num_args = 2, required = true)]
        words: Vec<String>,
        #[command(flatten)]
        options: PoolOptions,
    },
    /// Make all images of a group what they were at its snapshot
    #[command(after_help = "Example:\n  onego rbd group snap rollback rbd/web@monday")]
    Rollback {
        #[command(flatten)]
        snap: GroupSnapWord,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
}

/// A snapshot of a group in one word, or by options.
#[derive(clap::Args)]
pub(crate) struct GroupSnapWord {
    #[command(flatten)]
    group: GroupWord,
    /// The snapshot, named as an option
    #[arg(long)]
    snap: Option<String>,
}

impl GroupSnapWord {
    fn named(&self) -> Result<Named, Failure> {
        match &self.snap {
            Some(snap) => {
                let group = self.group.named(Snap::MustNot)?;
                Ok(Named { snap: Some(snap.clone()), ..group })
            }
            None => self.group.named(Snap::Must),
        }
    }
}

pub(super) fn group_snap(access: &Access, command: &GroupSnapCommand) -> Result<(), Failure> {
    match command {
        GroupSnapCommand::Create { snap, quiesce } => {
            let at = snap.named()?;
            access.with_cluster(async |cluster| {
                let pool = at.pool(cluster).await?;
                Ok(pools::create_group_snapshot(&pool, &at.name, at.snap(), quiesce.quiesce()).await?)
            })
        }
        GroupSnapCommand::Ls { group, print } => {
            let group = group.named(Snap::MustNot)?;
            access.with_cluster(async |cluster| {
                let found = pools::group_snapshots(&group.pool(cluster).await?, &group.name).await?;
                let state = |is_whole: bool| if is_whole { "ok" } else { "incomplete" };
                let row = |(name, is_whole): &(String, bool)| vec![name.clone(), state(*is_whole).to_owned()];
                let rows: Vec<_> = found.iter().map(row).collect();
                let value =
                    |(name, is_whole): &(String, bool)| json!({"snapshot": name, "state": state(*is_whole)});
                let values = || found.iter().map(value).collect::<Value>();
                print.table(&[("NAME", Left), ("STATUS", Right)], &rows, values)
            })
        }
        GroupSnapCommand::Rm(snap) => {
            let at = snap.named()?;
            access.with_cluster(async |cluster| {
                Ok(pools::remove_group_snapshot(&at.pool(cluster).await?, &at.name, at.snap()).await?)
            })
        }
        GroupSnapCommand::Rename { words, options } => {
            let from = options.named(&words[0], "a group", Snap::Must)?;
            // The group need not be said again.
            let to = words[1].rsplit_once('@').map_or(words[1].as_str(), |(_, snap)| snap);
            access.with_cluster(async |cluster| {
                let pool = from.pool(cluster).await?;
                Ok(pools::rename_group_snapshot(&pool, &from.name, from.snap(), to).await?)
            })
        }
        GroupSnapCommand::Rollback { snap, no_progress } => {
            let at = snap.named()?;
            access.with_cluster(async |cluster| {
                let bar = Bar::new("Rolling back to group snapshot", !no_progress);
                let pool = at.pool(cluster).await?;
                Ok(pools::rollback_group(&pool, &at.name, at.snap(), |done, all| bar.at(done, all)).await?)
            })
        }
    }
}
