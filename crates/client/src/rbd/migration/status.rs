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
    /// Number of its pool.
    pub pool: i64,
    /// Its namespace within the pool; empty: none.
    pub namespace: String,
    /// Its name.
    pub image: String,
    /// Its id.
    pub id: String,
}

/// Where an image comes from that is being moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationOrigin {
    /// An image, which is in the trash meanwhile.
    Image(MigrationSide),
    /// What this source-spec names, which stays as it is.
    Import(String),
}

/// How far a migration is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Where the image comes from.
    pub source: MigrationOrigin,
    /// Where it goes.
    pub destination: MigrationSide,
    /// How far it is (`cls::rbd::MigrationState`).
    pub state: u8,
    /// The same in words.
    pub description: String,
}

/// How far the migration of an image is, which may be named by its old name or its new one.
pub async fn status(pool: &Pool, image: &str) -> Result<MigrationStatus, Error> {
    let Sides { origin, state, description, destination } = Sides::of(pool, image).await?;
    let source = match origin {
        Origin::Moved(source) => MigrationOrigin::Image(side(source)),
        Origin::Imported(spec) => MigrationOrigin::Import(spec),
    };
    Ok(MigrationStatus { source, destination: side(destination), state, description })
}

/// Where an image comes from that is being moved here, as a source-spec. What is moved and not imported has one, too, by which
/// [`prepare_import`](super::prepare_import) would not find it: it names no snapshot.
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
    // An image of format 1 has none.
    if !image_id.is_empty() {
        members["image_id"] = image_id.into();
    }
    members.sort_all_objects();
    Ok(members.to_string())
}

fn side(Header { pool, id, name, .. }: Header) -> MigrationSide {
    MigrationSide { pool: pool.id(), namespace: pool.namespace().to_owned(), image: name, id }
}
