//! Where an image comes from that is being moved here: from an image that is in the trash meanwhile, or from one or from files that stay
//! as they are and that a source-spec names.
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
