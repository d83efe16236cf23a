//! Moves of images: to another name, pool or namespace, or to other features and objects, while they are in use at their new
//! place; and imports, which leave their source as it is. Ceph's `rbd migration` and this go on with what the other began.
//!
//! [`prepare`] makes the destination, which shows what the source has; the source is in the trash from then on. [`prepare_import`] does
//! so from what a [`SourceSpec`] names. [`execute`] copies what has not been copied yet, and [`commit`] removes a source that was moved;
//! [`abort`] removes the destination instead.
//!
//! Source: ceph `src/librbd/api/Migration.cc`, `doc/rbd/rbd-live-migration.rst`.

mod destination;
mod execute;
mod import;
mod object_copy;
mod prepare;
mod remove;
mod sides;
mod source_view;
mod status;

pub use super::sources::SourceSpec;
pub use execute::execute;
pub use import::prepare_import;
pub(super) use object_copy::ObjectCopier;
pub use prepare::prepare;
pub use remove::{abort, commit};
pub(super) use sides::migrating_objects;
pub use status::{MigrationOrigin, MigrationSide, MigrationStatus, source_spec, status};
