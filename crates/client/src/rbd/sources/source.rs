use super::files::SourceFiles;
use crate::rbd::header::Header;
use std::sync::Arc;

pub(in crate::rbd) enum MigrationSource {
    Image(SourceImage),
    Files(Arc<SourceFiles>),
}

pub(in crate::rbd) struct SourceImage {
    pub(in crate::rbd) header: Header,
    /// Snapshot that the destination currently shows; `NOSNAP` means the image itself.
    pub(in crate::rbd) head: u64,
}
