//! `onego rbd trash`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::bar::Bar;
use crate::rbd::names::{PoolOptions, Snap};
use crate::rbd::print::{PrintOptions, asctime};
use crate::rbd::table::{self, Alignment::Left};
use crate::spec::PoolSpec;
use onego::rbd::pools::{self, TrashEntry, TrashPurge, TrashSource};
use serde_json::json;
use std::time::{Duration, SystemTime};

#[derive(clap::Subcommand)]
pub(crate) enum TrashCommand {
    /// Move an image to the trash, from which it can be restored; clones of it go on working
    #[command(
        visible_alias = "move",
        after_help = "Example:\n  onego rbd trash mv rbd/disk --expires-at 2030-01-01"
    )]
    Mv {
        #[command(flatten)]
        image: ImageWord,
        /// Until when it is kept: "now", "YYYY-MM-DD[ HH:MM:SS]" in UTC, or how long, as in "7 days"
        #[arg(long, default_value = "now", value_parser = moment)]
        expires_at: SystemTime,
    },
    /// Show the images in the trash
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd trash ls --long rbd")]
    Ls {
        #[command(flatten)]
        place: PoolWord,
        /// Show those that no user moved there, too
        #[arg(short, long)]
        all: bool,
        /// Show when they were moved, and until when they are kept
        #[arg(short, long)]
        long: bool,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove an image from the trash and all its data
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd trash rm rbd/10eb82de2980")]
    Rm {
        #[command(flatten)]
        id: TrashWord,
        /// Remove it before its time is over
        #[arg(long)]
        force: bool,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Take an image out of the trash
    #[command(after_help = "Example:\n  onego rbd trash restore rbd/10eb82de2980 --image disk")]
    Restore {
        #[command(flatten)]
        id: TrashWord,
        /// Its name from now on [default: as before]
        #[arg(long)]
        image: Option<String>,
    },
    /// Remove all images from the trash whose time is over, or as many as make room
    #[command(
        after_help = "Examples:\n  onego rbd trash purge rbd\n  onego rbd trash purge rbd --threshold 0.8"
    )]
    Purge {
        #[command(flatten)]
        place: PoolWord,
        /// Remove those whose time was over before this one
        #[arg(long, value_name = "TIME", value_parser = moment)]
        expired_before: Option<SystemTime>,
        /// Remove those whose time is over first, or will be, until the pool uses no more than this part of its room (0 to 1)
        #[arg(long, value_name = "PART", conflicts_with = "expired_before")]
        threshold: Option<f64>,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
}

/// A pool in one word, or by options.
#[derive(clap::Args)]
pub(crate) struct PoolWord {
    /// The pool: POOL or POOL/NAMESPACE
    #[arg(value_name = "POOL")]
    word: Option<PoolSpec>,
    #[command(flatten)]
    options: PoolOptions,
}

impl PoolWord {
    pub(crate) fn place(&self) -> PoolSpec {
        self.options.pool(self.word.as_ref())
    }
}

/// An image in the trash, in one word or by options.
#[derive(clap::Args)]
pub(crate) struct TrashWord {
    /// The image: [POOL/[NAMESPACE/]]ID
    #[arg(value_name = "ID")]
    word: Option<String>,
    #[command(flatten)]
    options: PoolOptions,
    /// The image's id, as an option
    #[arg(long)]
    image_id: Option<String>,
}

impl TrashWord {
    fn named(&self) -> Result<(PoolSpec, String), Failure> {
        match self.word.as_deref().or(self.image_id.as_deref()) {
            Some(word) => {
                let named = self.options.named(word, "an image in the trash", Snap::MustNot)?;
                Ok((named.place, named.name))
            }
            None => Err(Failure::Usage("image id was not specified".into())),
        }
    }
}

/// Reads a time, or how long there is until then.
fn moment(text: &str) -> Result<SystemTime, String> {
    let now = SystemTime::now();
    if text == "now" {
        return Ok(now);
    }
    let padded = match text.len() {
        10 => format!("{text} 00:00:00"),
        _ => text.to_owned(),
    };
    if let Ok(at) = humantime::parse_rfc3339_weak(&padded) {
        return Ok(at);
    }
    let delay = humantime::parse_duration(text).map_err(|_| {
        "it is no time: write \"now\", \"YYYY-MM-DD HH:MM:SS\" in UTC, or \"7 days\"".to_owned()
    })?;
    Ok(now + delay)
}

pub(crate) fn trash(access: &Access, command: &TrashCommand) -> Result<(), Failure> {
    match command {
        TrashCommand::Mv { image, expires_at } => image.with(access, async |pool, name| {
            let delay = expires_at.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
            Ok(pools::move_to_trash(pool, name, delay).await?)
        }),
        TrashCommand::Ls { place, all, long, print } => access.with_cluster(async |cluster| {
            let mut found = pools::trash(&place.place().open(cluster).await?).await?;
            found.retain(|entry| *all || matches!(entry.source, TrashSource::User | TrashSource::UserParent));
            show(&found, *long, print)
        }),
        TrashCommand::Rm { id, force, no_progress } => {
            let (place, id) = id.named()?;
            access.with_cluster(async |cluster| {
                let bar = Bar::new("Removing image", !no_progress);
                let pool = place.open(cluster).await?;
                Ok(pools::remove_from_trash(&pool, &id, *force, |done, all| bar.at(done, all)).await?)
            })
        }
        TrashCommand::Restore { id, image } => {
            let (place, id) = id.named()?;
            access.with_cluster(async |cluster| {
                Ok(pools::restore(&place.open(cluster).await?, &id, image.as_deref()).await?)
            })
        }
        TrashCommand::Purge { place, expired_before, threshold, no_progress } => {
            let until = || TrashPurge::KeptUntil(expired_before.unwrap_or_else(SystemTime::now));
            let which = threshold.map_or_else(until, TrashPurge::Room);
            access.with_cluster(async |cluster| {
                let pool = place.place().open(cluster).await?;
                let bar = Bar::new("Removing images", !no_progress);
                pools::purge_trash(&pool, which, |done, all| bar.at(done, all)).await?;
                Ok(())
            })
        }
    }
}

fn show(entries: &[TrashEntry], long: bool, print: &PrintOptions) -> Result<(), Failure> {
    let lines = || match long {
        _ if entries.is_empty() => Vec::new(),
        false => entries.iter().map(|entry| format!("{} {}", entry.id, entry.name)).collect(),
        true => {
            let head = ["ID", "NAME", "SOURCE", "DELETED_AT", "STATUS", "PARENT"].map(|name| (name, Left));
            let row = |entry: &TrashEntry| {
                let (id, name, source) = (entry.id.clone(), entry.name.clone(), source(entry.source));
                vec![id, name, source, asctime(entry.deleted), status(entry), String::new()]
            };
            table::lines(&head, &entries.iter().map(row).collect::<Vec<_>>())
        }
    };
    let value = |entry: &TrashEntry| {
        let mut value = json!({"id": entry.id, "name": entry.name});
        if long {
            value["source"] = source(entry.source).into();
            value["deleted_at"] = asctime(entry.deleted).into();
            value["status"] = status(entry).into();
        }
        value
    };
    print.print(lines, || entries.iter().map(value).collect())
}

fn source(source: TrashSource) -> String {
    match source {
        TrashSource::User => "USER".to_owned(),
        TrashSource::Mirroring => "MIRRORING".to_owned(),
        TrashSource::Migration => "MIGRATION".to_owned(),
        TrashSource::Removing => "REMOVING".to_owned(),
        TrashSource::UserParent => "USER_PARENT".to_owned(),
        other => format!("{other:?}"),
    }
}

fn status(entry: &TrashEntry) -> String {
    let until = asctime(entry.kept_until);
    if entry.kept_until < SystemTime::now() {
        format!("expired at {until}")
    } else {
        format!("protected until {until}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_delays() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(moment("2024-03-01"), Ok(at(1_709_251_200)));
        assert_eq!(moment("2024-03-01 00:00:01"), Ok(at(1_709_251_201)));
        assert!(moment("7 days").unwrap() > SystemTime::now() + Duration::from_secs(6 * 86_400));
        assert!(moment("soon").is_err());
    }
}
