//! Export of diff streams, as by `rbd export-diff`.

use super::super::diff::{Diff, DiffOptions};
use super::super::header::Header;
use super::super::image::Image;
use super::range_writer::RangeWriter;
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::List;
use onego_rbd::stream::{DiffRecord, DiffVersion};

/// The changes of an image, with data, as a stream that `rbd import-diff` and [`ImportDiff`](super::ImportDiff) apply
/// to another image.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
/// let options = onego::rbd::DiffOptions::new().from("monday").to("tuesday");
/// let mut stream = onego::rbd::ExportDiff::open(&pool, "disk", &options).await?;
/// while let Some(bytes) = stream.next().await? {
///     println!("{} bytes", bytes.len());
/// }
/// # Ok(()) }
/// ```
pub struct ExportDiff {
    header: Option<List>,
    ranges: RangeWriter,
    size: u64,
    has_ended: bool,
}

impl ExportDiff {
    /// Starts an export at the stream's first byte.
    pub async fn open(pool: &Pool, name: &str, options: &DiffOptions) -> Result<Self, Error> {
        let header = Header::named(pool, name).await?;
        let details = header.details().await?;
        let diff = Diff::of(&header, &details, options).await?;
        Self::of(&header, diff, DiffVersion::V1).await
    }

    pub(super) async fn of(image: &Header, diff: Diff, version: DiffVersion) -> Result<Self, Error> {
        let (from, to) = diff.points();
        let is_protected = to.name.is_some() && version == DiffVersion::V2;
        let records = [
            from.and_then(|from| from.name.clone()).map(DiffRecord::From),
            to.name.clone().map(DiffRecord::To),
            is_protected.then_some(DiffRecord::Protected(to.is_protected)),
            Some(DiffRecord::Size(to.size)),
        ];
        let mut header = version.banner().as_bytes().to_vec();
        records.into_iter().flatten().for_each(|record| record.encode(version, &mut header));
        let image = match &to.name {
            Some(snapshot) => Image::open_at(&image.pool, &image.name, snapshot).await?,
            None => Image::open_read_only(&image.pool, &image.name).await?,
        };
        let size = to.size;
        let ranges = RangeWriter::new(diff, image, version);
        Ok(Self { header: Some(header.into()), ranges, size, has_ended: false })
    }

    /// Returns the size of the image at the diff's end, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the offset in the image up to which the stream contains all changes.
    pub fn position(&self) -> u64 {
        self.ranges.position()
    }

    /// Skips what was written to the stream before: its header, and the changes before byte `offset` of the image,
    /// which must be a record boundary. Call this before the first [`next`](Self::next).
    pub fn skip_to(&mut self, offset: u64) {
        self.header = None;
        self.ranges.skip_to(offset);
    }

    /// Returns the stream's next bytes, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<List>, Error> {
        if let Some(header) = self.header.take() {
            return Ok(Some(header));
        }
        if self.has_ended {
            return Ok(None);
        }
        if let Some(bytes) = self.ranges.next().await? {
            return Ok(Some(bytes));
        }
        self.has_ended = true;
        let mut end = Vec::new();
        DiffRecord::End.encode(DiffVersion::V1, &mut end);
        Ok(Some(end.into()))
    }
}
