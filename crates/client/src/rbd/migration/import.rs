use super::destination::{IncomingSnapshot, build_oldest, check_name, grow, reveal};
use super::remove::abort_sides;
use super::sides::{Origin, Sides, state};
use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::clones::copy_metadata;
use crate::rbd::create::{CreateOptions, new_id};
use crate::rbd::header::Header;
use crate::rbd::snapshot::Snapshot;
use crate::rbd::sources::{MigrationSource, SourceImage, SourceSpec};
use crate::rbd::view::refuse_own_key;
use onego_ceph::cls::rbd::{MigrationSpec, migration_side};

/// Prepares the import of a new image from an unchanging source. The image, which has the source's snapshots up to
/// the one that `spec` names and the source's size, is usable from then on. `options` are the parameters of the
/// image.
///
/// This allows this client to read the files in `spec` for images that are imported from them. Other clients read
/// them only if their [configuration](crate::ceph::Config::source_folder) allows it.
pub async fn prepare_import(
    spec: &SourceSpec,
    (pool, name): (&Pool, &str),
    options: &CreateOptions,
) -> Result<(), Error> {
    options.needs_v2("imported images")?;
    options.check_features(name)?;
    options.check_pool(pool).await?;
    check_name(pool, name, false).await?;
    spec.allow_files(pool.cluster());
    let source = match spec.find(pool.cluster()).await? {
        MigrationSource::Image(image) => ImportSource::of_image(image).await?,
        MigrationSource::Files(files) => ImportSource::of_files(pool, spec, files.sizes())?,
    };
    let destination = Header::v2(pool, &new_id(pool)?, name);
    let migration = MigrationSpec {
        side: migration_side::DESTINATION,
        pool: -1,
        overlap: source.size,
        flatten: true,
        state: state::PREPARING,
        source_spec: spec.to_string(),
        ..MigrationSpec::default()
    };
    let sides = Sides::new(Origin::Imported(spec.to_string()), &migration, destination);
    if let Err(error) = make_destination(&sides, migration, &source, options).await {
        // The first error is the one to report.
        let _ = abort_sides(&sides, |_, _| {}).await;
        return Err(error);
    }
    Ok(())
}

struct ImportSource {
    /// Source image, which may have metadata.
    image: Option<Header>,
    size: u64,
    /// Snapshots to copy, oldest first.
    snapshots: Vec<IncomingSnapshot>,
}

impl ImportSource {
    async fn of_image(SourceImage { header, head }: SourceImage) -> Result<Self, Error> {
        let details = header.details().await?;
        let size = details.snapshot_by_id(head)?.size;
        let comes = |snapshot: &&Snapshot| snapshot.is_users() && snapshot.id <= head;
        let snapshots: Vec<_> = details.snapshots.iter().filter(comes).map(IncomingSnapshot::from).collect();
        if details.origin.is_some() {
            let times = snapshots.iter().map(|snapshot| snapshot.id).chain([head]);
            let advice = "its parent's data cannot be imported: use \"rbd deep cp\" to create another clone";
            refuse_own_key(&header, &times.collect::<Vec<_>>(), advice).await?;
        }
        Ok(Self { image: Some(header), size, snapshots })
    }

    /// Selects the snapshots that the source-spec names. `sizes` are those of the snapshots' files and of the image's
    /// file.
    fn of_files(pool: &Pool, spec: &SourceSpec, sizes: &[u64]) -> Result<Self, Error> {
        let mut snapshots = Vec::new();
        for ((name, size), id) in spec.snapshot_names().zip(sizes).zip(1..) {
            // As in librbd, an unnamed snapshot gets a unique name.
            let name = name.map_or_else(|| new_id(pool), |name| Ok(name.to_owned()))?;
            snapshots.push(IncomingSnapshot { id, name, size: *size, is_protected: false });
        }
        Ok(Self { image: None, size: sizes.last().copied().unwrap_or(0), snapshots })
    }
}

async fn make_destination(
    sides: &Sides,
    migration: MigrationSpec,
    ImportSource { image, size, snapshots }: &ImportSource,
    options: &CreateOptions,
) -> Result<(), Error> {
    let destination = &sides.destination;
    build_oldest(destination, options, snapshots, *size).await?;
    let snap_seqs = grow(destination, snapshots, *size).await?;
    if let Some(image) = image {
        copy_metadata(image, destination).await?;
    }
    reveal(sides, MigrationSpec { snap_seqs, ..migration }).await
}
