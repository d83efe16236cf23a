use super::sides::{Origin, Sides, migration_of};
use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::{Header, ImageInfo};
use onego_ceph::cls::rbd::{MigrationSpec, migration_side};
use serde_json::json;

/// An image on one side of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationSide {
    /// Number of the pool.
    pub pool: i64,
    /// Namespace within the pool; empty for none.
    pub namespace: String,
    /// Name of the image.
    pub image: String,
    /// Id of the image.
    pub id: String,
}

/// Source of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationOrigin {
    /// An image, which is in the trash meanwhile.
    Image(MigrationSide),
    /// An unchanging source named by this source-spec.
    Import(String),
}

/// State of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Source of the image.
    pub source: MigrationOrigin,
    /// Destination of the image.
    pub destination: MigrationSide,
    /// Number of the state (`cls::rbd::MigrationState`).
    pub state: u8,
    /// State in words.
    pub description: String,
}

/// Returns the state of an image's migration, by the name of the source or the destination.
pub async fn status(pool: &Pool, image: &str) -> Result<MigrationStatus, Error> {
    let Sides { origin, state, description, destination } = Sides::of(pool, image).await?;
    let source = match origin {
        Origin::Moved(source) => MigrationOrigin::Image(side(source)),
        Origin::Imported(spec) => MigrationOrigin::Import(spec),
    };
    Ok(MigrationStatus { source, destination: side(destination), state, description })
}

/// Returns the source of an image that is being migrated here, as a source-spec. That of a migrated rather than
/// imported image names no snapshot, so [`prepare_import`](super::prepare_import) does not accept it.
pub async fn source_spec(pool: &Pool, image: &ImageInfo) -> Result<String, Error> {
    let header = Header::of(pool, image);
    let spec = migration_of(&header).await?;
    if spec.side != migration_side::DESTINATION {
        return Err(Error::NotFound { what: format!("a source of {}", header.describe()) });
    }
    if !spec.source_spec.is_empty() {
        return Ok(spec.source_spec);
    }
    let MigrationSpec { pool, namespace, image_name, image_id, .. } = spec;
    let mut members = json!({
        "type": "native",
        "pool_id": pool,
        "pool_namespace": namespace,
        "image_name": image_name,
    });
    // Images of format 1 have no id.
    if !image_id.is_empty() {
        members["image_id"] = image_id.into();
    }
    members.sort_all_objects();
    Ok(members.to_string())
}

fn side(Header { pool, id, name, .. }: Header) -> MigrationSide {
    MigrationSide { pool: pool.id(), namespace: pool.namespace().to_owned(), image: name, id }
}
