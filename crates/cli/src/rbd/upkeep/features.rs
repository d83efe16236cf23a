//! `onego rbd feature`.

use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::names::ImageOptions;
use onego::rbd::{Features, upkeep};

#[derive(clap::Subcommand)]
pub(crate) enum FeatureCommand {
    /// Switch features of an image on
    #[command(after_help = "Example:\n  onego rbd feature enable rbd/disk exclusive-lock object-map")]
    Enable(FeatureOptions),
    /// Switch features of an image off
    #[command(after_help = "Example:\n  onego rbd feature disable rbd/disk object-map")]
    Disable(FeatureOptions),
}

#[derive(clap::Args)]
pub(crate) struct FeatureOptions {
    /// The image, and the features
    #[arg(value_name = "IMAGE FEATURES", num_args = 0..)]
    words: Vec<String>,
    #[command(flatten)]
    options: ImageOptions,
}

pub(crate) fn feature(access: &Access, command: &FeatureCommand) -> Result<(), Failure> {
    let (FeatureCommand::Enable(options) | FeatureCommand::Disable(options)) = command;
    let (image, names) =
        options.options.image_and(&options.words, 1..=usize::MAX, "at least one feature name")?;
    let features =
        names.iter().try_fold(Features::NONE, |all, names| names.parse().map(|some| all.with(some)));
    let features = features.map_err(Failure::Usage)?;
    access.with_cluster(async |cluster| {
        let pool = image.pool(cluster).await?;
        match command {
            FeatureCommand::Enable(_) => upkeep::enable_features(&pool, &image.name, features).await?,
            FeatureCommand::Disable(_) => upkeep::disable_features(&pool, &image.name, features).await?,
        }
        Ok(())
    })
}
