//! Migration of images to another name, pool or namespace, or to other features and layouts, while the destination is
//! in use; and imports, which leave their source unchanged. Interoperates with Ceph's `rbd migration`: either can
//! continue what the other began.
//!
//! [`prepare`] creates the destination, which shows the source's data, and moves the source to the trash.
//! [`prepare_import`] creates it from the source named by a [`SourceSpec`]. [`execute`] copies the remaining data,
//! and [`commit`] removes a migrated source; [`abort`] removes the destination instead.
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
