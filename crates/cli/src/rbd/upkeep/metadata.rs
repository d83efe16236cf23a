//! `onego rbd image-meta`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::output;
use crate::rbd::names::{ImageOptions, Named};
use crate::rbd::print::PrintOptions;
use crate::rbd::table::{self, Alignment::Left};
use onego::ceph::Error;
use onego::rbd;
use onego::text;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(clap::Subcommand)]
pub(crate) enum MetadataCommand {
    /// Give a key of an image a value
    #[command(after_help = "Example:\n  onego rbd image-meta set rbd/disk owner web")]
    Set(MetadataOptions),
    /// Show the value of a key of an image
    #[command(after_help = "Example:\n  onego rbd image-meta get rbd/disk owner")]
    Get(MetadataOptions),
    /// Show all keys of an image and their values
    #[command(visible_alias = "ls", after_help = "Example:\n  onego rbd image-meta list rbd/disk")]
    List {
        #[command(flatten)]
        image: ImageWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove a key of an image
    #[command(visible_alias = "rm", after_help = "Example:\n  onego rbd image-meta remove rbd/disk owner")]
    Remove(MetadataOptions),
}

#[derive(clap::Args)]
pub(crate) struct MetadataOptions {
    /// The image, the key, and for "set" the value
    #[arg(value_names = ["IMAGE", "KEY", "VALUE"], num_args = 0..=3)]
    words: Vec<String>,
    #[command(flatten)]
    options: ImageOptions,
}

impl MetadataOptions {
    fn named(&self, count: usize) -> Result<(Named, &[String]), Failure> {
        let what = if count == 2 { "metadata key or value" } else { "metadata key" };
        self.options.image_and(&self.words, count..=count, what)
    }
}

pub(crate) fn metadata(access: &Access, command: &MetadataCommand) -> Result<(), Failure> {
    match command {
        MetadataCommand::Set(options) => {
            let (image, words) = options.named(2)?;
            access.with_cluster(async |cluster| {
                let pool = image.pool(cluster).await?;
                let info = rbd::info(&pool, &image.name).await?;
                Ok(rbd::set_metadata(&pool, &info, &words[0], &text::to_bytes(&words[1])).await?)
            })
        }
        MetadataCommand::Get(options) => {
            let (image, words) = options.named(1)?;
            access.with_cluster(async |cluster| {
                let pool = image.pool(cluster).await?;
                let info = rbd::info(&pool, &image.name).await?;
                let value = rbd::metadata(&pool, &info, &words[0]).await?;
                output::lines([text(&value.ok_or_else(|| missing(&words[0], &image))?)])
            })
        }
        MetadataCommand::List { image, print } => image.with(access, async |pool, name| {
            let info = rbd::info(pool, name).await?;
            let entries = rbd::all_metadata(pool, &info).await?;
            print.print(|| lines(&entries), || values(&entries))
        }),
        MetadataCommand::Remove(options) => {
            let (image, words) = options.named(1)?;
            access.with_cluster(async |cluster| {
                let pool = image.pool(cluster).await?;
                let info = rbd::info(&pool, &image.name).await?;
                if rbd::metadata(&pool, &info, &words[0]).await?.is_none() {
                    return Err(missing(&words[0], &image).into());
                }
                Ok(rbd::remove_metadata(&pool, &info, &words[0]).await?)
            })
        }
    }
}

fn missing(key: &str, image: &Named) -> Error {
    Error::NotFound { what: format!("key {key} of {image}") }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn lines(entries: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let head = match entries.len() {
        0 => return Vec::new(),
        1 => "There is 1 metadatum on this image:".to_owned(),
        count => format!("There are {count} metadata on this image:"),
    };
    let rows: Vec<_> = entries.iter().map(|(key, value)| vec![key.clone(), text(value)]).collect();
    [vec![head, String::new()], table::lines(&[("Key", Left), ("Value", Left)], &rows)].concat()
}

fn values(entries: &BTreeMap<String, Vec<u8>>) -> Value {
    let entry = |(key, value): (&String, &Vec<u8>)| (key.clone(), text(value).into());
    Value::Object(entries.iter().map(entry).collect::<Map<_, _>>())
}
