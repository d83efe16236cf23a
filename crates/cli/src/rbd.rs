//! `onego rbd`.

mod export;
mod image;
mod import;
mod partial_import;
mod shape;
mod show;
mod transfer;

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::output::Format;
use crate::size;
use crate::spec::PoolSpec;
use image::ImageArg;
use onego::rados::Pool;
use onego::rbd;
use onego_bench::report::progress::Progress;
use std::collections::BTreeMap;

pub(crate) use partial_import::{MARK_EVERY, PartialImport};
pub(crate) use shape::Shape;
pub(crate) use transfer::PIECE;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make an image
    #[command(after_help = "Example:\n  onego rbd create rbd/disk --size 10G")]
    Create {
        #[command(flatten)]
        image: ImageArg,
        /// Bytes of the image; a number alone is in MiB
        #[arg(short, long, value_parser = size::image)]
        size: u64,
        #[command(flatten)]
        shape: Shape,
    },
    /// Show the images of a pool
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd ls --long rbd")]
    Ls {
        /// The pool: POOL or POOL/NAMESPACE
        #[arg(value_name = "POOL", conflicts_with = "pool")]
        place: Option<PoolSpec>,
        /// The pool, named as an option
        #[arg(short, long)]
        pool: Option<PoolSpec>,
        /// Show sizes too
        #[arg(short, long)]
        long: bool,
        /// How to print them
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Show what is known of an image
    #[command(after_help = "Example:\n  onego rbd info rbd/disk --format json")]
    Info {
        #[command(flatten)]
        image: ImageArg,
        /// How to print it
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove an image and all its data
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd rm rbd/disk")]
    Rm {
        #[command(flatten)]
        image: ImageArg,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Change the size of an image
    #[command(after_help = "Example:\n  onego rbd resize rbd/disk --size 20G")]
    Resize {
        #[command(flatten)]
        image: ImageArg,
        /// Bytes that the image is to have; a number alone is in MiB
        #[arg(short, long, value_parser = size::image)]
        size: u64,
        /// Let the image become smaller; what is cut off is lost
        #[arg(long)]
        allow_shrink: bool,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Make an image of a file
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(import::Options),
    /// Write an image to a file
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::Options),
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  onego rbd import debian.img rbd/debian
  zcat debian.img.gz | onego rbd import - rbd/debian

What is a hole in the file, or is zeros, takes no room in the cluster. An image whose import was interrupted says so
(\"onego rbd info\", or \"rbd image-meta list\"); --resume goes on with it.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  onego rbd export rbd/debian debian.img
  onego rbd export rbd/debian - | gzip > debian.img.gz

What is zeros in the image becomes a hole in the file. The file is called .NAME.onego-partial until it is whole; if the
export is interrupted, --resume goes on with it.";

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create { image, size, shape } => {
            shape.layout()?;
            access.with_cluster(async |cluster| {
                shape.create(&image.open_pool(cluster).await?, image.name(), size, BTreeMap::new()).await
            })
        }
        Command::Ls { place, pool, long, format } => {
            let place = place.or(pool).unwrap_or_else(|| PoolSpec::named(crate::spec::DEFAULT_POOL));
            access.with_cluster(async |cluster| show::list(&place.open(cluster).await?, long, format).await)
        }
        Command::Info { image, format } => access.with_cluster(async |cluster| {
            show::info(&image.open_pool(cluster).await?, image.name(), format).await
        }),
        Command::Rm { image, no_progress } => access.with_cluster(async |cluster| {
            let pool = image.open_pool(cluster).await?;
            let bar = Bar::new("Removing", !no_progress);
            let _unfinished = left_in_part(&image, "removed in part: remove it again");
            rbd::remove(&pool, image.name(), |done, all| bar.at(done, all)).await?;
            Ok(())
        }),
        Command::Resize { image, size, allow_shrink, no_progress } => access.with_cluster(async |cluster| {
            let pool = image.open_pool(cluster).await?;
            refuse_to_shrink(&pool, image.name(), size, allow_shrink).await?;
            let bar = Bar::new("Resizing", !no_progress);
            let _unfinished = left_in_part(&image, "resized in part: resize it again");
            rbd::resize(&pool, image.name(), size, |done, all| bar.at(done, all)).await?;
            Ok(())
        }),
        Command::Import(options) => import::run(access, &options),
        Command::Export(options) => export::run(access, &options),
    }
}

/// Says what a signal has left of an image.
fn left_in_part(image: &ImageArg, what: &'static str) -> Unfinished {
    let shown = image.spec.to_string();
    Unfinished::new(move || Some(format!("image {shown} may be {what}")))
}

async fn refuse_to_shrink(pool: &Pool, name: &str, size: u64, allowed: bool) -> Result<(), Failure> {
    // It is not opened: a signal would leave it in use for half a minute.
    let now = rbd::info(pool, name).await?.size;
    if size < now && !allowed {
        return Err(Failure::Usage(format!(
            "image {name} has {now} bytes, and what is behind byte {size} would be lost: say --allow-shrink if you mean it"
        )));
    }
    Ok(())
}

/// Progress of what says itself how much there is.
struct Bar(Progress);

impl Bar {
    fn new(task: &str, shown: bool) -> Self {
        Self(Progress::of_bytes(task, Some(0), shown))
    }

    fn at(&self, done: u64, all: u64) {
        self.0.of(all);
        self.0.at(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish();
    }
}
