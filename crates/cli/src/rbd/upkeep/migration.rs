//! `onego rbd migration`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::bar::Bar;
use crate::rbd::names::{DestOptions, Named, Snap, SnapOptions};
use crate::rbd::shape::Shape;
use onego::rbd::migration as moves;
use onego::rbd::upkeep::CopyKind;

#[derive(clap::Subcommand)]
pub(crate) enum MigrationCommand {
    /// Make the destination, which shows what the source has and is used from then on
    #[command(after_help = "Example:\n  onego rbd migration prepare rbd/disk fast/disk --object-size 1M")]
    Prepare(Box<PrepareOptions>),
    /// Copy what the destination does not have yet
    #[command(after_help = "Example:\n  onego rbd migration execute fast/disk")]
    Execute(EndOptions),
    /// Remove the source
    #[command(after_help = "Example:\n  onego rbd migration commit fast/disk")]
    Commit(EndOptions),
    /// Remove the destination, and have the source again
    #[command(after_help = "Example:\n  onego rbd migration abort fast/disk")]
    Abort(EndOptions),
}

#[derive(clap::Args)]
pub(crate) struct PrepareOptions {
    /// The image, and where it goes [default: the same name]
    #[arg(value_names = ["SOURCE", "DESTINATION"], num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    source: SnapOptions,
    #[command(flatten)]
    dest: DestOptions,
    #[command(flatten)]
    shape: Shape,
    /// Make the destination of a clone an image of its own
    #[arg(long)]
    flatten: bool,
}

#[derive(clap::Args)]
pub(crate) struct EndOptions {
    #[command(flatten)]
    image: ImageWord,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

impl PrepareOptions {
    fn named(&self) -> Result<(Named, Named), Failure> {
        let mut words = self.words.iter().map(String::as_str);
        let from = self.source.named(words.next(), Snap::MustNot)?;
        let same = Some(from.name.as_str()).filter(|_| !self.dest.has_name());
        let to = self.dest.named(words.next().or(same), &from.place, Snap::MustNot)?;
        Ok((from, to))
    }
}

pub(crate) fn migration(access: &Access, command: &MigrationCommand) -> Result<(), Failure> {
    match command {
        MigrationCommand::Prepare(options) => prepare(access, options),
        MigrationCommand::Execute(options) => options.image.with(access, async |pool, name| {
            let bar = options.bar("Image migration");
            Ok(moves::execute(pool, name, |done, all| bar.at(done, all)).await?)
        }),
        MigrationCommand::Commit(options) => options.image.with(access, async |pool, name| {
            let bar = options.bar("Commit image migration");
            Ok(moves::commit(pool, name, |done, all| bar.at(done, all)).await?)
        }),
        MigrationCommand::Abort(options) => options.image.with(access, async |pool, name| {
            let bar = options.bar("Abort image migration");
            Ok(moves::abort(pool, name, |done, all| bar.at(done, all)).await?)
        }),
    }
}

impl EndOptions {
    fn bar(&self, what: &'static str) -> Bar {
        Bar::new(what, !self.no_progress)
    }
}

fn prepare(access: &Access, options: &PrepareOptions) -> Result<(), Failure> {
    let (from, to) = options.named()?;
    access.with_cluster(async |cluster| {
        let (pool, to_pool) = (from.pool(cluster).await?, to.pool(cluster).await?);
        let source = onego::rbd::info(&pool, &from.name).await?;
        let create = options.shape.like(&source, cluster).await?;
        let kind = if options.flatten { CopyKind::Flat } else { CopyKind::AsSource };
        Ok(moves::prepare((&pool, &from.name), (&to_pool, &to.name), &create, kind).await?)
    })
}
