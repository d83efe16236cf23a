//! `onego rbd cp`, `deep cp` and `sparsify`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::partial_import::IncompleteArgs;
use crate::rbd::bar::Bar;
use crate::rbd::names::{DestOptions, Named, Snap, SnapOptions};
use crate::rbd::shape::Shape;
use crate::size;
use onego::rbd::upkeep;
use onego::rbd::upkeep::CopyKind;

#[derive(clap::Args)]
pub(crate) struct CopyOptions {
    /// The image, or a snapshot of it, and the image that is made
    #[arg(value_names = ["SOURCE", "IMAGE"], num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    source: SnapOptions,
    #[command(flatten)]
    dest: DestOptions,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    incomplete: IncompleteArgs,
    /// Bytes of a block that is not written if it is zeros; objects as a whole are looked at
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    sparse_size: Option<u64>,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

impl CopyOptions {
    fn named(&self) -> Result<(Named, Named), Failure> {
        let mut words = self.words.iter().map(String::as_str);
        let from = self.source.named(words.next(), Snap::May)?;
        let to = self.dest.named(words.next(), &from.place, Snap::MustNot)?;
        Ok((from, to))
    }
}

pub(crate) fn copy(access: &Access, options: &CopyOptions) -> Result<(), Failure> {
    let (from, to) = options.named()?;
    access.with_cluster(async |cluster| {
        let (pool, to_pool) = (from.pool(cluster).await?, to.pool(cluster).await?);
        let source = onego::rbd::info(&pool, &from.name).await?;
        options.incomplete.check(&pool, &source).await?;
        let create = options.shape.like(&source, cluster).await?;
        let bar = Bar::new("Image copy", !options.no_progress);
        let from = (&pool, from.name.as_str(), from.snap.as_deref());
        Ok(upkeep::copy(from, (&to_pool, &to.name), &create, |done, all| bar.at(done, all)).await?)
    })
}

#[derive(clap::Subcommand)]
pub(crate) enum DeepCommand {
    /// Copy an image with its snapshots to a new one
    #[command(visible_alias = "copy", after_help = "Example:\n  onego rbd deep cp rbd/disk rbd/whole-copy")]
    Cp {
        #[command(flatten)]
        copy: CopyOptions,
        /// Make the copy of a clone an image of its own
        #[arg(long)]
        flatten: bool,
    },
}

pub(crate) fn deep(access: &Access, command: &DeepCommand) -> Result<(), Failure> {
    let DeepCommand::Cp { copy: options, flatten } = command;
    let (from, to) = options.named()?;
    access.with_cluster(async |cluster| {
        let (pool, to_pool) = (from.pool(cluster).await?, to.pool(cluster).await?);
        let source = onego::rbd::info(&pool, &from.name).await?;
        options.incomplete.check(&pool, &source).await?;
        let create = options.shape.like(&source, cluster).await?;
        let bar = Bar::new("Image deep copy", !options.no_progress);
        let from = (&pool, from.name.as_str(), from.snap.as_deref());
        let progress = |done, all| bar.at(done, all);
        let kind = if *flatten { CopyKind::Flat } else { CopyKind::AsSource };
        Ok(upkeep::deep_copy(from, (&to_pool, &to.name), &create, kind, progress).await?)
    })
}

#[derive(clap::Args)]
pub(crate) struct SparsifyOptions {
    #[command(flatten)]
    image: ImageWord,
    /// Bytes of a block that is given back if it is zeros
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = size::bytes)]
    sparse_size: u64,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn sparsify(access: &Access, options: &SparsifyOptions) -> Result<(), Failure> {
    options.image.with(access, async |pool, name| {
        let bar = Bar::new("Image sparsify", !options.no_progress);
        Ok(upkeep::sparsify(pool, name, options.sparse_size, |done, all| bar.at(done, all)).await?)
    })
}
