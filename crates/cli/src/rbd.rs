//! `onego rbd`.

mod bar;
mod encryption;
mod export;
mod image;
mod import;
mod names;
mod print;
mod shape;
mod show;
mod streams;
mod table;
mod transfer;
mod upkeep;

use crate::access::Access;
use crate::device::EncryptionArgs;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::size;
use crate::spec::PoolSpec;
use bar::Bar;
use names::{Named, Snap, SnapOptions};
use onego::rbd;
use print::PrintOptions;
use shape::FormatOption;
use std::collections::BTreeMap;
use upkeep::ImageWord;

pub(crate) use shape::Shape;
pub(crate) use transfer::PIECE;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make an image
    #[command(after_help = "Example:\n  onego rbd create rbd/disk --size 10G")]
    Create {
        #[command(flatten)]
        image: ImageWord,
        /// Bytes of the image; a number alone is in MiB
        #[arg(short, long, value_parser = size::image)]
        size: u64,
        #[command(flatten)]
        shape: Shape,
        #[command(flatten)]
        format: FormatOption,
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
        /// The namespace, named as an option
        #[arg(long)]
        namespace: Option<String>,
        /// Show sizes, snapshots, parents and locks too
        #[arg(short, long)]
        long: bool,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Show what is known of an image
    #[command(after_help = "Example:\n  onego rbd info rbd/disk --format json")]
    Info {
        /// The image, or a snapshot of it: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
        #[arg(value_name = "IMAGE")]
        word: Option<String>,
        #[command(flatten)]
        options: SnapOptions,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove an image and all its data
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd rm rbd/disk")]
    Rm {
        #[command(flatten)]
        image: ImageWord,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Change the size of an image
    #[command(after_help = "Example:\n  onego rbd resize rbd/disk --size 20G")]
    Resize {
        #[command(flatten)]
        image: ImageWord,
        /// Bytes that the image is to have; a number alone is in MiB
        #[arg(short, long, value_parser = size::image)]
        size: u64,
        /// Let the image become smaller; what is cut off is lost
        #[arg(long)]
        allow_shrink: bool,
        #[command(flatten)]
        encryption: EncryptionArgs,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Encrypted images
    #[command(subcommand)]
    Encryption(encryption::EncryptionCommand),
    /// Make an image of a file
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(import::Options),
    /// Write an image to a file
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::Options),
    /// Snapshots of an image
    #[command(subcommand)]
    Snap(upkeep::SnapCommand),
    /// Make an image that shows a snapshot's bytes until it has its own
    #[command(after_help = "Example:\n  onego rbd clone rbd/disk@monday rbd/copy")]
    Clone(Box<upkeep::CloneOptions>),
    /// Show the clones of an image, or of a snapshot
    #[command(after_help = "Example:\n  onego rbd children rbd/disk@monday")]
    Children(upkeep::ChildrenOptions),
    /// Give a clone all bytes that it shows of its parent, and make it an image of its own
    #[command(after_help = "Example:\n  onego rbd flatten rbd/copy")]
    Flatten(upkeep::FlattenOptions),
    /// Copy what an image, or a snapshot, shows to a new image
    #[command(visible_alias = "copy", after_help = "Example:\n  onego rbd cp rbd/disk rbd/copy")]
    Cp(Box<upkeep::CopyOptions>),
    /// Copies with all there is
    #[command(subcommand)]
    Deep(Box<upkeep::DeepCommand>),
    /// Give back the room of blocks that are zeros
    #[command(after_help = "Example:\n  onego rbd sparsify rbd/disk")]
    Sparsify(upkeep::SparsifyOptions),
    /// Give an image another name
    #[command(visible_alias = "mv", after_help = "Example:\n  onego rbd rename rbd/disk rbd/root")]
    Rename(upkeep::RenameOptions),
    /// Images that were removed and can be restored
    #[command(subcommand)]
    Trash(upkeep::TrashCommand),
    /// Prepare a pool for images
    #[command(subcommand)]
    Pool(upkeep::RbdPoolCommand),
    /// Namespaces of a pool
    #[command(subcommand)]
    Namespace(upkeep::NamespaceCommand),
    /// Groups of images, of which snapshots are made together
    #[command(subcommand)]
    Group(upkeep::GroupCommand),
    /// Keys and values that users note at an image
    #[command(subcommand)]
    ImageMeta(upkeep::MetadataCommand),
    /// Options that an image or a pool sets
    #[command(subcommand)]
    Config(upkeep::ConfigCommand),
    /// Features of an image
    #[command(subcommand)]
    Feature(upkeep::FeatureCommand),
    /// Move an image while it is used
    #[command(subcommand)]
    Migration(upkeep::MigrationCommand),
    /// The map of the objects of an image
    #[command(subcommand)]
    ObjectMap(upkeep::ObjectMapCommand),
    /// The lock on an image
    #[command(subcommand)]
    Lock(upkeep::LockCommand),
    /// Show the clients that have an image open
    #[command(after_help = "Example:\n  onego rbd status rbd/disk")]
    Status(upkeep::StatusOptions),
    /// Show what the users of an image tell each other
    #[command(after_help = "Example:\n  onego rbd watch rbd/disk")]
    Watch(upkeep::WatchOptions),
    /// Show what changed of an image since a snapshot, or since it was made
    #[command(after_help = "Example:\n  onego rbd diff --from-snap monday rbd/disk@tuesday")]
    Diff(streams::DiffCommand),
    /// Write what changed of an image, with the bytes, to a file
    #[command(after_help = EXPORT_DIFF_EXAMPLES)]
    ExportDiff(streams::ExportDiffOptions),
    /// Apply what changed of an image to another one, and make the snapshot at its end
    #[command(after_help = "Example:\n  onego rbd import-diff tuesday.diff rbd/copy")]
    ImportDiff(streams::ImportDiffOptions),
    /// Show how much room images and their snapshots take
    #[command(visible_alias = "disk-usage", after_help = "Example:\n  onego rbd du rbd/disk")]
    Du(streams::DiskUsageOptions),
    /// Make one file of two that what changed was written to
    #[command(after_help = "Example:\n  onego rbd merge-diff monday.diff tuesday.diff both.diff")]
    MergeDiff(streams::MergeDiffOptions),
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  onego rbd import debian.img rbd/debian
  zcat debian.img.gz | onego rbd import - rbd/debian

A qcow2 file is imported as the disk in it, and other formats are refused; --raw imports the bytes of any file.
What is a hole in the file, or is zeros, takes no room in the cluster. An image whose import was interrupted says so
(\"onego rbd info\", or \"rbd image-meta list\"); --resume goes on with it.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  onego rbd export rbd/debian debian.img
  onego rbd export rbd/debian@monday monday.img
  onego rbd export rbd/debian - | gzip > debian.img.gz

What is zeros in the image becomes a hole in the file. The file is called .NAME.onego-partial until it is whole; if the
export is interrupted, --resume goes on with it.";

const EXPORT_DIFF_EXAMPLES: &str = "\
Examples:
  onego rbd export-diff --from-snap monday rbd/disk@tuesday tuesday.diff
  onego rbd export-diff rbd/disk - | ssh backup rbd import-diff - rbd/disk";

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create { image, size, shape, format } => {
            image.named()?;
            shape.layout()?;
            let shape = shape.in_format(&format, &access.config()?.image_defaults)?;
            image.with(access, async |pool, name| shape.create(pool, name, size, BTreeMap::new()).await)
        }
        Command::Ls { place, pool, namespace, long, print } => {
            let mut place = place.or(pool).unwrap_or_else(|| PoolSpec::named(crate::spec::DEFAULT_POOL));
            place.namespace = namespace.unwrap_or(place.namespace);
            access.with_cluster(async |cluster| show::list(&place.open(cluster).await?, long, &print).await)
        }
        Command::Info { word, options, print } => {
            let named = options.named(word.as_deref(), Snap::May)?;
            access.with_cluster(async |cluster| show::info(&named.pool(cluster).await?, &named, &print).await)
        }
        Command::Rm { image, no_progress } => {
            let _unfinished = left_in_part(&image.named()?, "removed in part: remove it again");
            image.with(access, async |pool, name| {
                let bar = Bar::new("Removing", !no_progress);
                Ok(rbd::remove(pool, name, |done, all| bar.at(done, all)).await?)
            })
        }
        Command::Resize { image, size, allow_shrink, encryption, no_progress } => {
            let _unfinished = left_in_part(&image.named()?, "resized in part: resize it again");
            let specs = encryption.specs()?;
            image.with(access, async |pool, name| {
                let bar = Bar::new("Resizing", !no_progress);
                if !specs.is_empty() {
                    let image = crate::device::open_image(pool, name, false, &specs).await?;
                    let shrinks = refuse_to_shrink(name, image.size(), size, allow_shrink);
                    let resized = match shrinks {
                        Ok(()) => Ok(image.resize(size, |done, all| bar.at(done, all)).await?),
                        Err(refused) => Err(refused),
                    };
                    let closed = image.close().await;
                    return resized.and_then(|()| Ok(closed?));
                }
                // It is not opened: a signal would leave it in use for half a minute.
                refuse_to_shrink(name, rbd::info(pool, name).await?.size, size, allow_shrink)?;
                Ok(rbd::resize(pool, name, size, |done, all| bar.at(done, all)).await?)
            })
        }
        Command::Encryption(command) => encryption::run(access, &command),
        Command::Import(options) => import::run(access, &options),
        Command::Export(options) => export::run(access, &options),
        Command::Snap(command) => upkeep::snap(access, command),
        Command::Clone(options) => upkeep::clone(access, &options),
        Command::Children(options) => upkeep::children(access, &options),
        Command::Flatten(options) => upkeep::flatten(access, &options),
        Command::Cp(options) => upkeep::copy(access, &options),
        Command::Deep(command) => upkeep::deep(access, &command),
        Command::Sparsify(options) => upkeep::sparsify(access, &options),
        Command::Rename(options) => upkeep::rename(access, &options),
        Command::Trash(command) => upkeep::trash(access, &command),
        Command::Pool(command) => upkeep::pool(access, &command),
        Command::Namespace(command) => upkeep::namespace(access, &command),
        Command::Group(command) => upkeep::group(access, &command),
        Command::ImageMeta(command) => upkeep::metadata(access, &command),
        Command::Config(command) => upkeep::config(access, &command),
        Command::Feature(command) => upkeep::feature(access, &command),
        Command::Migration(command) => upkeep::migration(access, &command),
        Command::ObjectMap(command) => upkeep::object_map(access, &command),
        Command::Lock(command) => upkeep::lock(access, &command),
        Command::Status(options) => upkeep::status(access, &options),
        Command::Watch(options) => upkeep::watch(access, &options),
        Command::Diff(options) => streams::diff(access, &options),
        Command::ExportDiff(options) => streams::export_diff(access, &options),
        Command::ImportDiff(options) => streams::import_diff(access, &options),
        Command::Du(options) => streams::disk_usage(access, &options),
        Command::MergeDiff(options) => streams::merge_diff(&options),
    }
}

/// Says what a signal has left of an image.
fn left_in_part(image: &Named, what: &'static str) -> Unfinished {
    let shown = image.to_string();
    Unfinished::new(move || Some(format!("image {shown} may be {what}")))
}

fn refuse_to_shrink(name: &str, now: u64, size: u64, allowed: bool) -> Result<(), Failure> {
    if size < now && !allowed {
        return Err(Failure::Usage(format!(
            "image {name} has {now} bytes, and what is behind byte {size} would be lost: say --allow-shrink if you mean it"
        )));
    }
    Ok(())
}
