//! `onego rbd group`.

use super::group_snapshots::{GroupSnapCommand, group_snap};
use super::group_word::GroupWord;
use super::trash::PoolWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::names::{Named, PoolOptions, Snap};
use crate::rbd::print::PrintOptions;
use onego::rbd::pools::{self, GroupImage};
use serde_json::{Value, json};

#[derive(clap::Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a group
    #[command(after_help = "Example:\n  onego rbd group create rbd/web")]
    Create(GroupWord),
    /// Show the groups of a pool
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd group ls rbd")]
    Ls {
        #[command(flatten)]
        place: PoolWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove a group and its snapshots; its images stay
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd group rm rbd/web")]
    Rm(GroupWord),
    /// Give a group another name
    #[command(after_help = "Example:\n  onego rbd group rename rbd/web rbd/www")]
    Rename {
        /// The group, and its name from now on
        #[arg(value_names = ["GROUP", "NEW-GROUP"], num_args = 2, required = true)]
        words: Vec<String>,
        #[command(flatten)]
        options: PoolOptions,
    },
    /// The images of a group
    #[command(subcommand)]
    Image(GroupImageCommand),
    /// The snapshots of a group
    #[command(subcommand)]
    Snap(GroupSnapCommand),
}

#[derive(clap::Subcommand)]
pub(crate) enum GroupImageCommand {
    /// Put an image into a group
    #[command(after_help = "Example:\n  onego rbd group image add rbd/web rbd/disk")]
    Add(MemberOptions),
    /// Take an image out of a group
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd group image rm rbd/web rbd/disk")]
    Rm(MemberOptions),
    /// Show the images of a group
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd group image ls rbd/web")]
    Ls {
        #[command(flatten)]
        group: GroupWord,
        #[command(flatten)]
        print: PrintOptions,
    },
}

#[derive(clap::Args)]
pub(crate) struct MemberOptions {
    /// The group, and the image
    #[arg(value_names = ["GROUP", "IMAGE"], num_args = 2, required = true)]
    words: Vec<String>,
    #[command(flatten)]
    options: PoolOptions,
}

impl MemberOptions {
    fn named(&self) -> Result<(Named, Named), Failure> {
        let named = |word: &String, what| self.options.named(word, what, Snap::MustNot);
        Ok((named(&self.words[0], "a group")?, named(&self.words[1], "an image")?))
    }
}

pub(crate) fn group(access: &Access, command: &GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::Create(group) => {
            let group = group.named(Snap::MustNot)?;
            access.with_cluster(async |cluster| {
                Ok(pools::create_group(&group.pool(cluster).await?, &group.name).await?)
            })
        }
        GroupCommand::Ls { place, print } => access.with_cluster(async |cluster| {
            let names = pools::groups(&place.place().open(cluster).await?).await?;
            print.print(|| names.clone(), || json!(names))
        }),
        GroupCommand::Rm(group) => {
            let group = group.named(Snap::MustNot)?;
            access.with_cluster(async |cluster| {
                Ok(pools::remove_group(&group.pool(cluster).await?, &group.name).await?)
            })
        }
        GroupCommand::Rename { words, options } => {
            let from = options.named(&words[0], "a group", Snap::MustNot)?;
            let to = options.named(&words[1], "a group", Snap::MustNot)?;
            if from.place != to.place {
                return Err(Failure::Usage("a group stays in its pool and namespace".into()));
            }
            access.with_cluster(async |cluster| {
                Ok(pools::rename_group(&from.pool(cluster).await?, &from.name, &to.name).await?)
            })
        }
        GroupCommand::Image(command) => group_image(access, command),
        GroupCommand::Snap(command) => group_snap(access, command),
    }
}

fn group_image(access: &Access, command: &GroupImageCommand) -> Result<(), Failure> {
    match command {
        GroupImageCommand::Add(options) => {
            let (group, image) = options.named()?;
            access.with_cluster(async |cluster| {
                let (pool, image_pool) = (group.pool(cluster).await?, image.pool(cluster).await?);
                Ok(pools::add_to_group((&pool, &group.name), (&image_pool, &image.name)).await?)
            })
        }
        GroupImageCommand::Rm(options) => {
            let (group, image) = options.named()?;
            access.with_cluster(async |cluster| {
                let (pool, image_pool) = (group.pool(cluster).await?, image.pool(cluster).await?);
                Ok(pools::remove_from_group((&pool, &group.name), (&image_pool, &image.name)).await?)
            })
        }
        GroupImageCommand::Ls { group, print } => {
            let group = group.named(Snap::MustNot)?;
            access.with_cluster(async |cluster| {
                let images = pools::group_images(&group.pool(cluster).await?, &group.name).await?;
                let namespace = &group.place.namespace;
                let lines = || images.iter().map(|image| shown(image, namespace)).collect();
                print.print(lines, || images.iter().map(|image| value(image, namespace)).collect())
            })
        }
    }
}

/// An image of a group as `rbd` shows it, with room for its state, which is empty for most.
fn shown(image: &GroupImage, namespace: &str) -> String {
    let state = if image.is_incomplete { "incomplete" } else { "" };
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("{}/{place}{} {state}", image.pool, image.image)
}

fn value(image: &GroupImage, namespace: &str) -> Value {
    json!({
        "image": image.image, "pool": image.pool, "namespace": namespace,
        "state": u8::from(image.is_incomplete),
    })
}
