use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::ancestors::ancestors;
use crate::rbd::header::{Header, describe};
use crate::rbd::pools::{TrashSource, trash};
use crate::rbd::sources::{MigrationSource, SourceImage, source_of};
use onego_ceph::cls::rbd::{MigrationGet, MigrationSetState, MigrationSpec, migration_side};
use onego_ceph::types::NOSNAP;

/// States of a migration (`cls::rbd::MigrationState`).
pub(super) mod state {
    pub(in crate::rbd::migration) const PREPARING: u8 = 1;
    pub(in crate::rbd::migration) const PREPARED: u8 = 2;
    pub(in crate::rbd::migration) const EXECUTING: u8 = 3;
    pub(in crate::rbd::migration) const EXECUTED: u8 = 4;
}

pub(super) enum Origin {
    Moved(Header),
    Imported(String),
}

pub(super) struct Sides {
    pub(super) origin: Origin,
    pub(super) state: u8,
    pub(super) description: String,
    pub(super) destination: Header,
}

impl Sides {
    pub(super) fn new(origin: Origin, spec: &MigrationSpec, destination: Header) -> Self {
        Self { origin, state: spec.state, description: spec.state_description.clone(), destination }
    }

    /// Returns the migration of the image called `name`, by the name of its destination or the former name of its
    /// source.
    pub(super) async fn of(pool: &Pool, name: &str) -> Result<Self, Error> {
        let header = match Header::named(pool, name).await {
            Ok(header) => header,
            Err(Error::NotFound { .. }) => trashed(pool, name).await?,
            Err(error) => return Err(error),
        };
        let spec = migration_of(&header).await?;
        if spec.side == migration_side::SOURCE {
            header.needs_v2("the id that a migration requires", Errno::OPNOTSUPP)?;
            return Self::from_source(header, &spec).await;
        }
        if !spec.source_spec.is_empty() {
            return Ok(Self::new(Origin::Imported(spec.source_spec.clone()), &spec, header));
        }
        let MigrationSource::Image(SourceImage { header: source, .. }) = source_of(pool, name, &spec).await?
        else {
            return Err(Error::Invalid(format!("{} is not being migrated", header.describe())));
        };
        let listed = trash(&source.pool).await?.into_iter().find(|entry| entry.id == source.id);
        let name = listed.map_or_else(|| source.id.clone(), |entry| entry.name);
        let source = Header { name, ..source };
        let spec = source.call(&MigrationGet {}).await?;
        Self::from_source(source, &spec).await
    }

    async fn from_source(source: Header, spec: &MigrationSpec) -> Result<Self, Error> {
        let pool = source.pool.cluster().pool_by_id(spec.pool).await?.in_namespace(&spec.namespace);
        let destination = Header::v2(&pool, &spec.image_id, &spec.image_name);
        Ok(Self::new(Origin::Moved(source), spec, destination))
    }

    pub(super) async fn set_state(&self, state: u8) -> Result<(), Error> {
        let set = MigrationSetState { state, description: String::new() };
        if let Origin::Moved(source) = &self.origin {
            source.change(&set).await?;
        }
        self.destination.change(&set).await
    }

    pub(super) fn check_state(&self, states: &[u8], advice: &str) -> Result<(), Error> {
        if states.contains(&self.state) {
            return Ok(());
        }
        Err(Error::Invalid(format!("the migration to {} {advice}", self.destination.describe())))
    }
}

pub(super) async fn migration_of(header: &Header) -> Result<MigrationSpec, Error> {
    header.call(&MigrationGet {}).await.map_err(|error| match error {
        Error::Refused { errno: Errno::INVAL, .. } => {
            Error::Invalid(format!("{} is not being migrated", header.describe()))
        }
        error => error,
    })
}

async fn trashed(pool: &Pool, name: &str) -> Result<Header, Error> {
    let is_it =
        |entry: &crate::rbd::pools::TrashEntry| entry.name == name && entry.source == TrashSource::Migration;
    match trash(pool).await?.into_iter().find(is_it) {
        Some(entry) => Ok(Header::v2(pool, &entry.id, name)),
        None => Err(Error::NotFound { what: describe(pool, name) }),
    }
}

/// Returns the number of objects of an image that is being migrated here, or of its snapshots, that may show the
/// source.
pub(in crate::rbd) async fn migrating_objects(header: &Header) -> Result<u64, Error> {
    let info = header.details().await?.info;
    let source = ancestors(&header.pool, &info, NOSNAP).await?;
    Ok(info.layout.objects(source.map_or(0, |source| source.overlap)))
}
