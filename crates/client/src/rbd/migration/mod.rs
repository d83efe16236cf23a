//! Moves of images: to another name, pool or namespace, or to other features and objects, while they are in use at their new
//! place. Ceph's `rbd migration` and this go on with what the other began.
//!
//! [`prepare`] makes the destination, which shows what the source has; the source is in the trash from then on. [`execute`]
//! copies what has not been copied yet, and [`commit`] removes the source; [`abort`] removes the destination instead.
//!
//! Source: ceph `src/librbd/api/Migration.cc`, `doc/rbd/rbd-live-migration.rst`.

mod execute;
mod object_copy;
mod prepare;
mod remove;
mod sides;
mod status;

pub use execute::execute;
pub(super) use object_copy::ObjectCopier;
pub use prepare::prepare;
pub use remove::{abort, commit};
pub(super) use sides::migrating_objects;
pub use status::{MigrationSide, MigrationStatus, status};
