//! `onego rbd config`: options of Ceph's that an image or a pool sets for all clients that open the image.

use super::snapshots::ImageWord;
use super::trash::PoolWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::output;
use crate::rbd::names::ImageOptions;
use crate::rbd::print::PrintOptions;
use crate::rbd::table::Alignment::Left;
use onego::ceph::Error;
use onego::rbd::{self, pools};
use onego::text;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the keys of options start with among the metadata (`ImageCtx::METADATA_CONF_PREFIX`).
const PREFIX: &str = "conf_";

/// What names of options start with that are about images.
const OPTION: &str = "rbd_";

#[derive(clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Options that an image sets
    #[command(subcommand)]
    Image(ImageConfig),
    /// Options that a pool sets
    #[command(subcommand)]
    Pool(PoolConfig),
}

#[derive(clap::Subcommand)]
pub(crate) enum ImageConfig {
    /// Show what an option is set to
    #[command(after_help = "Example:\n  onego rbd config image get rbd/disk rbd_cache")]
    Get(ImageOption),
    /// Show the options that an image, or its pool, sets
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd config image ls rbd/disk")]
    Ls {
        #[command(flatten)]
        image: ImageWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Set an option
    #[command(after_help = "Example:\n  onego rbd config image set rbd/disk rbd_cache false")]
    Set(ImageOption),
    /// Set an option no more
    #[command(
        visible_alias = "remove",
        after_help = "Example:\n  onego rbd config image rm rbd/disk rbd_cache"
    )]
    Rm(ImageOption),
}

#[derive(clap::Args)]
pub(crate) struct ImageOption {
    /// The image, the option, and for "set" the value
    #[arg(value_names = ["IMAGE", "KEY", "VALUE"], num_args = 0..=3)]
    words: Vec<String>,
    #[command(flatten)]
    options: ImageOptions,
}

#[derive(clap::Subcommand)]
pub(crate) enum PoolConfig {
    /// Show what an option is set to
    #[command(after_help = "Example:\n  onego rbd config pool get rbd rbd_cache")]
    Get {
        /// The pool
        pool: String,
        /// The option
        key: String,
    },
    /// Show the options that a pool sets
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd config pool ls rbd")]
    Ls {
        #[command(flatten)]
        place: PoolWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Set an option
    #[command(after_help = "Example:\n  onego rbd config pool set rbd rbd_cache false")]
    Set {
        /// The pool
        pool: String,
        /// The option
        key: String,
        /// Its value
        value: String,
    },
    /// Set an option no more
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd config pool rm rbd rbd_cache")]
    Rm {
        /// The pool
        pool: String,
        /// The option
        key: String,
    },
}

pub(crate) fn config(access: &Access, command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Image(command) => image(access, command),
        ConfigCommand::Pool(command) => pool(access, command),
    }
}

fn image(access: &Access, command: &ImageConfig) -> Result<(), Failure> {
    let (options, count) = match command {
        ImageConfig::Ls { image, print } => {
            return image.with(access, async |pool, name| {
                let info = rbd::info(pool, name).await?;
                let mut all = overrides(pools::pool_settings(pool).await?, "pool");
                all.extend(overrides(rbd::all_metadata(pool, &info).await?, "image"));
                show(&all, print)
            });
        }
        ImageConfig::Get(options) | ImageConfig::Rm(options) => (options, 1),
        ImageConfig::Set(options) => (options, 2),
    };
    let (named, words) = options.options.image_and(&options.words, count..=count, "config key or value")?;
    let key = key(&words[0])?;
    access.with_cluster(async |cluster| {
        let pool = named.pool(cluster).await?;
        let info = rbd::info(&pool, &named.name).await?;
        let value = rbd::metadata(&pool, &info, &key).await?;
        match command {
            ImageConfig::Set(_) => rbd::set_metadata(&pool, &info, &key, &text::to_bytes(&words[1])).await?,
            ImageConfig::Rm(_) if value.is_some() => rbd::remove_metadata(&pool, &info, &key).await?,
            _ => return print_value(value, &words[0]),
        }
        Ok(())
    })
}

fn pool(access: &Access, command: &PoolConfig) -> Result<(), Failure> {
    match command {
        PoolConfig::Get { pool, key: name } => {
            let key = key(name)?;
            access.with_cluster(async |cluster| {
                let mut settings = pools::pool_settings(&cluster.pool(pool).await?).await?;
                print_value(settings.remove(&key), name)
            })
        }
        PoolConfig::Ls { place, print } => access.with_cluster(async |cluster| {
            let settings = pools::pool_settings(&place.place().open(cluster).await?).await?;
            show(&overrides(settings, "pool"), print)
        }),
        PoolConfig::Set { pool, key: name, value } => {
            let key = key(name)?;
            access.with_cluster(async |cluster| {
                Ok(pools::set_pool_setting(&cluster.pool(pool).await?, &key, &text::to_bytes(value)).await?)
            })
        }
        PoolConfig::Rm { pool, key: name } => {
            let key = key(name)?;
            access.with_cluster(async |cluster| {
                let pool = cluster.pool(pool).await?;
                if !pools::pool_settings(&pool).await?.contains_key(&key) {
                    return print_value(None, name);
                }
                Ok(pools::remove_pool_setting(&pool, &key).await?)
            })
        }
    }
}

/// The key of an option.
fn key(option: &str) -> Result<String, Failure> {
    if !option.starts_with(OPTION) {
        return Err(Failure::Usage(format!("not rbd option: {option}: it must start with {OPTION}")));
    }
    Ok(format!("{PREFIX}{option}"))
}

fn print_value(value: Option<Vec<u8>>, option: &str) -> Result<(), Failure> {
    match value {
        Some(value) => output::lines([String::from_utf8_lossy(&value)]),
        None => Err(Error::NotFound { what: format!("a value of {option} there") }.into()),
    }
}

/// Options with their values and what sets them.
type Overrides = BTreeMap<String, (String, &'static str)>;

fn overrides(metadata: BTreeMap<String, Vec<u8>>, source: &'static str) -> Overrides {
    let option = |(key, value): (String, Vec<u8>)| {
        let name = key.strip_prefix(PREFIX)?.to_owned();
        Some((name, (String::from_utf8_lossy(&value).into_owned(), source)))
    };
    metadata.into_iter().filter_map(option).collect()
}

fn show(all: &Overrides, print: &PrintOptions) -> Result<(), Failure> {
    let rows: Vec<_> = all
        .iter()
        .map(|(name, (value, source))| vec![name.clone(), value.clone(), (*source).to_owned()])
        .collect();
    let value = |(name, (value, source)): (&String, &(String, &str))| json!({"name": name, "value": value, "source": source});
    let head = ["Name", "Value", "Source"].map(|name| (name, Left));
    print.table(&head, &rows, || all.iter().map(value).collect::<Value>())
}
