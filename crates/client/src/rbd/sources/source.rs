use super::files::SourceFiles;
use crate::rbd::header::Header;
use std::sync::Arc;

/// Source of an image that is being migrated here.
pub(in crate::rbd) enum MigrationSource {
    Image(SourceImage),
    Files(Arc<SourceFiles>),
}

/// An image as the source of a migration.
pub(in crate::rbd) struct SourceImage {
    pub(in crate::rbd) header: Header,
    /// Snapshot that the destination currently shows; `NOSNAP` means the image itself.
    pub(in crate::rbd) head: u64,
}
