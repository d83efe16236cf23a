use crate::ceph::error::Error;
use crate::rbd::sources::{MigrationSource, SourceFile, SourceImage};
use crate::rbd::view::View;
use onego_ceph::types::NOSNAP;
use std::ops::Range;

pub(super) enum SourceView {
    Image(Box<View>),
    File(SourceFile),
}

impl SourceView {
    /// Opens the source at one of its snapshots; `None` means the state that the destination currently shows.
    pub(super) async fn of(source: &MigrationSource, snap: Option<u64>) -> Result<Self, Error> {
        match source {
            MigrationSource::Image(SourceImage { header, head }) => {
                let view = View::of_source(header, snap.unwrap_or(*head)).await?;
                Ok(Self::Image(Box::new(view)))
            }
            MigrationSource::Files(files) => files.at(snap.unwrap_or(NOSNAP)).map(Self::File),
        }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Image(view) => view.size(),
            Self::File(file) => file.size(),
        }
    }

    /// Returns whether the source itself, not an ancestor, has data in these ranges.
    pub(super) async fn has_objects(&self, ranges: &[Range<u64>]) -> Result<bool, Error> {
        match self {
            Self::Image(view) => view.has_objects(ranges).await,
            Self::File(_) => Ok(true),
        }
    }

    /// Reads ranges and concatenates them, with zeros past the end of the source.
    pub(super) async fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<u8>, Error> {
        let file = match self {
            Self::Image(view) => return view.read_ranges(ranges).await,
            Self::File(file) => file,
        };
        let mut bytes = Vec::new();
        for range in ranges {
            bytes.extend(file.bytes(range.clone()).await?);
        }
        Ok(bytes)
    }
}
