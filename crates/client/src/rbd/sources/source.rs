use super::files::SourceFiles;
use crate::rbd::header::Header;
use std::sync::Arc;

/// What shows through an image that is being moved here.
pub(in crate::rbd) enum MigrationSource {
    Image(SourceImage),
    Files(Arc<SourceFiles>),
}

/// An image that shows through one that is being moved here.
pub(in crate::rbd) struct SourceImage {
    pub(in crate::rbd) header: Header,
    /// The snapshot of it that the other image shows, now; `NOSNAP`: the image itself.
    pub(in crate::rbd) head: u64,
}
