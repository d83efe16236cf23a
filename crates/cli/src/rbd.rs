//! `onego rbd`.

mod export;
mod import;
mod show;
mod transfer;

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::output::Format;
use crate::size;
use crate::spec::{ImageSpec, PoolSpec};
use onego::rados::{Cluster, Pool};
use onego::rbd::{self, CreateOptions, Features, Layout};
use onego_bench::progress::Progress;
use std::collections::BTreeMap;

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

/// The image that a command is about.
#[derive(clap::Args)]
pub(crate) struct ImageArg {
    /// The image: [POOL/[NAMESPACE/]]IMAGE
    #[arg(value_name = "IMAGE")]
    spec: ImageSpec,
    /// The pool, if the image's name has none [default: rbd]
    #[arg(short, long)]
    pool: Option<String>,
}

impl ImageArg {
    fn name(&self) -> &str {
        &self.spec.image
    }

    async fn open_pool(&self, cluster: &Cluster) -> Result<Pool, onego::ceph::Error> {
        self.spec.place(self.pool.as_deref()).open(cluster).await
    }
}

/// How the bytes of a new image lie in the cluster.
#[derive(clap::Args)]
pub(crate) struct Shape {
    /// Bytes of an object: a power of two from 4K to 32M
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size::bytes)]
    object_size: u64,
    /// Bytes that go to an object before the next one's turn
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "stripe_count")]
    stripe_unit: Option<u64>,
    /// Objects that bytes go round
    #[arg(long, value_name = "N", requires = "stripe_unit")]
    stripe_count: Option<u64>,
    /// The pool of the data, if it is not the image's
    #[arg(long, value_name = "POOL")]
    data_pool: Option<String>,
    /// Features of the image; may be given more than once
    #[arg(long, value_name = "FEATURES", default_value = "layering")]
    image_feature: Vec<Features>,
}

impl Shape {
    fn layout(&self) -> Result<Layout, Failure> {
        if !self.object_size.is_power_of_two() {
            return Err(Failure::Usage(format!("object size {} is no power of two", self.object_size)));
        }
        let order = self.object_size.ilog2() as u8;
        let layout = Layout::striped(order, self.stripe_unit.unwrap_or(0), self.stripe_count.unwrap_or(0));
        Ok(layout.map_err(onego::ceph::Error::from)?)
    }

    async fn create(
        &self,
        pool: &Pool,
        name: &str,
        size: u64,
        metadata: BTreeMap<String, Vec<u8>>,
    ) -> Result<(), Failure> {
        let data_pool = match &self.data_pool {
            Some(name) => Some(pool.cluster().pool(name).await?),
            None => None,
        };
        let features = self.image_feature.iter().fold(Features::NONE, |all, some| all.with(*some));
        let mut options = CreateOptions::new(size).with_layout(self.layout()?).with_features(features);
        options.data_pool = data_pool;
        options.metadata = metadata;
        Ok(rbd::create(pool, name, &options).await?)
    }
}

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
