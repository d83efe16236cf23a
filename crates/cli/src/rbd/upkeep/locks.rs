//! `onego rbd lock`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::names::ImageOptions;
use crate::rbd::print::{PrintOptions, address};
use crate::rbd::table::{self, Alignment::Left};
use onego::rados::{LockHolder, LockInfo, LockKind};
use onego::rbd::upkeep;
use serde_json::{Value, json};

#[derive(clap::Subcommand)]
pub(crate) enum LockCommand {
    /// Show the holders of an image's lock
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd lock ls rbd/disk")]
    Ls {
        #[command(flatten)]
        image: ImageWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Take an image's lock, until it is removed
    #[command(after_help = "Example:\n  onego rbd lock add rbd/disk backup")]
    Add {
        /// The image, and a name for the hold
        #[arg(value_names = ["IMAGE", "LOCK-ID"], num_args = 0..=2)]
        words: Vec<String>,
        #[command(flatten)]
        options: ImageOptions,
        /// Share it with all that give the same tag
        #[arg(long, value_name = "TAG")]
        shared: Option<String>,
    },
    /// Take an image's lock away from its holder
    #[command(
        visible_alias = "remove",
        after_help = "Example:\n  onego rbd lock rm rbd/disk backup client.4123"
    )]
    Rm {
        /// The image, the name of the hold, and the holder
        #[arg(value_names = ["IMAGE", "LOCK-ID", "LOCKER"], num_args = 0..=3)]
        words: Vec<String>,
        #[command(flatten)]
        options: ImageOptions,
    },
}

pub(crate) fn lock(access: &Access, command: &LockCommand) -> Result<(), Failure> {
    match command {
        LockCommand::Ls { image, print } => image.with(access, async |pool, name| {
            let found = upkeep::locks(pool, name).await?;
            print.print(|| lines(&found), || values(&found))
        }),
        LockCommand::Add { words, options, shared } => {
            let (image, words) = options.image_and(words, 1..=1, "lock id")?;
            access.with_cluster(async |cluster| {
                let pool = image.pool(cluster).await?;
                Ok(upkeep::add_lock(&pool, &image.name, &words[0], shared.as_deref()).await?)
            })
        }
        LockCommand::Rm { words, options } => {
            let (image, words) = options.image_and(words, 2..=2, "lock id or locker")?;
            access.with_cluster(async |cluster| {
                let pool = image.pool(cluster).await?;
                Ok(upkeep::remove_lock(&pool, &image.name, &words[0], &words[1]).await?)
            })
        }
    }
}

fn lines(locks: &LockInfo) -> Vec<String> {
    let count = locks.holders.len();
    if count == 0 {
        return Vec::new();
    }
    let is_shared = locks.kind == Some(LockKind::Shared);
    let kind = if is_shared { "shared" } else { "exclusive" };
    let mut lines = vec![match count {
        1 => format!("There is 1 {kind} lock on this image."),
        count => format!("There are {count} {kind} locks on this image."),
    }];
    if is_shared {
        lines.push(format!("Lock tag: {}", locks.tag));
    }
    let row = |lock: &LockHolder| vec![lock.client.to_string(), lock.cookie.clone(), address(&lock.addr)];
    let rows: Vec<_> = locks.holders.iter().map(row).collect();
    lines.extend(table::lines(&[("Locker", Left), ("ID", Left), ("Address", Left)], &rows));
    lines
}

fn values(locks: &LockInfo) -> Value {
    let value = |lock: &LockHolder| json!({"id": lock.cookie, "locker": lock.client.to_string(), "address": address(&lock.addr)});
    locks.holders.iter().map(value).collect()
}
