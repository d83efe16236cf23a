//! `onego rbd status`, `watch` and `rename`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::rbd::names::{DestOptions, ImageOptions, Snap};
use crate::rbd::print::{PrintOptions, address};
use onego::rados::{WatchEvent, Watcher};
use onego::rbd::{pools, upkeep};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    image: ImageWord,
    #[command(flatten)]
    print: PrintOptions,
}

pub(crate) fn status(access: &Access, options: &StatusOptions) -> Result<(), Failure> {
    options.image.with(access, async |pool, name| {
        let watchers = upkeep::watchers(pool, name).await?;
        let value = |watcher: &Watcher| {
            json!({
                "address": address(&watcher.addr),
                "client": watcher.name.num,
                "cookie": watcher.cookie,
            })
        };
        let values = || json!({"watchers": watchers.iter().map(value).collect::<Value>()});
        options.print.print(|| lines(&watchers), values)
    })
}

fn lines(watchers: &[Watcher]) -> Vec<String> {
    if watchers.is_empty() {
        return vec!["Watchers: none".to_owned()];
    }
    let line = |watcher: &Watcher| {
        format!("\twatcher={} {} cookie={}", address(&watcher.addr), watcher.name, watcher.cookie)
    };
    [vec!["Watchers:".to_owned()], watchers.iter().map(line).collect()].concat()
}

#[derive(clap::Args)]
pub(crate) struct WatchOptions {
    #[command(flatten)]
    image: ImageWord,
}

/// Prints what the users of an image tell each other, until a signal comes.
pub(crate) fn watch(access: &Access, options: &WatchOptions) -> Result<(), Failure> {
    options.image.with(access, async |pool, name| {
        let mut watch = upkeep::watch(pool, name).await?;
        output::lines([format!("watching image {name}; a signal ends it")])?;
        let _unfinished = interrupt::Unfinished::winding_down(|| None);
        while let Ok(Some(WatchEvent::Notify(notification))) = interrupt::unless(watch.next()).await {
            output::lines([format!(
                "{name} received notification: notifier={} bytes={}",
                notification.notifier(),
                notification.payload().len()
            )])?;
        }
        Ok(())
    })
}

#[derive(clap::Args)]
pub(crate) struct RenameOptions {
    /// The image, and its name from now on
    #[arg(value_names = ["IMAGE", "NEW-IMAGE"], num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    source: ImageOptions,
    #[command(flatten)]
    dest: DestOptions,
}

pub(crate) fn rename(access: &Access, options: &RenameOptions) -> Result<(), Failure> {
    let mut words = options.words.iter().map(String::as_str);
    let from = options.source.image(words.next())?;
    let to = options.dest.named(words.next(), &from.place, Snap::MustNot)?;
    if from.place != to.place {
        return Err(Failure::Usage("mv/rename across pools or namespaces not supported".into()));
    }
    access.with_cluster(async |cluster| {
        Ok(pools::rename(&from.pool(cluster).await?, &from.name, &to.name).await?)
    })
}
