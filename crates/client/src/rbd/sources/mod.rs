//! Sources of an image that is being migrated: an image that is in the trash meanwhile, or an unchanging image or
//! files named by a source-spec.
//!
//! Source: ceph `src/librbd/migration/`, `doc/rbd/rbd-live-migration.rst`.

mod files;
mod json;
mod lookup;
mod native;
mod raw;
mod source;
mod spec;

pub(super) use files::SourceFile;
pub(super) use lookup::{snap_at, source_of};
pub(super) use source::{MigrationSource, SourceImage};
pub use spec::SourceSpec;
