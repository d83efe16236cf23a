use super::sides::Sides;
use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::Header;

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

/// How far a migration is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Where the image comes from.
    pub source: MigrationSide,
    /// Where it goes.
    pub destination: MigrationSide,
    /// How far it is (`cls::rbd::MigrationState`).
    pub state: u8,
    /// The same in words.
    pub description: String,
}

/// How far the migration of an image is, which may be named by its old name or its new one.
pub async fn status(pool: &Pool, image: &str) -> Result<MigrationStatus, Error> {
    let Sides { source, spec, destination } = Sides::of(pool, image).await?;
    Ok(MigrationStatus {
        source: side(source),
        destination: side(destination),
        state: spec.state,
        description: spec.state_description,
    })
}

fn side(Header { pool, id, name, .. }: Header) -> MigrationSide {
    MigrationSide { pool: pool.id(), namespace: pool.namespace().to_owned(), image: name, id }
}
