//! Export of image streams, as by `rbd export --export-format 2`.

use super::super::diff::{Diff, DiffOptions, ImagePoint};
use super::super::header::metadata::all_metadata;
use super::super::header::{Header, ImageDetails};
use super::export_diff::ExportDiff;
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::List;
use onego_rbd::stream::{DiffVersion, ImageRecord};
use std::collections::VecDeque;

/// An image with all its snapshots, as a stream from which `rbd import --export-format 2` and
/// [`ImportImage`](super::ImportImage) create an image.
pub struct ExportImage {
    image: Header,
    details: ImageDetails,
    header: Option<List>,
    /// Ends of the remaining diffs.
    points: VecDeque<ImagePoint>,
    last: Option<ImagePoint>,
    current: Option<ExportDiff>,
    done: u64,
    diffs: u64,
}

impl ExportImage {
    /// Starts an export at the stream's first byte.
    pub async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        let image = Header::named(pool, name).await?;
        let details = image.details().await?;
        let info = &details.info;
        let points: VecDeque<_> =
            ImagePoint::snapshots(&details).chain([ImagePoint::head(&details)]).collect();
        let diffs = points.len() as u64;
        let records = [
            ImageRecord::Begin,
            ImageRecord::Order(info.layout.order().into()),
            ImageRecord::Features(info.features.0),
            ImageRecord::StripeUnit(info.layout.stripe_unit()),
            ImageRecord::StripeCount(info.layout.stripe_count()),
        ];
        let metadata = all_metadata(pool, info).await?;
        let metadata = metadata.into_iter().map(|(key, value)| ImageRecord::Metadata { key, value });
        let records = records.into_iter().chain(metadata).chain([ImageRecord::Diffs(diffs)]);
        let mut header = Vec::new();
        records.for_each(|record| record.encode(&mut header));
        let header = Some(header.into());
        Ok(Self { image, details, header, points, last: None, current: None, done: 0, diffs })
    }

    /// Returns the total work in bytes: the size of the image times the number of diffs.
    pub fn size(&self) -> u64 {
        self.details.info.size.saturating_mul(self.diffs)
    }

    /// Returns how much of [`size`](Self::size) the stream covers.
    pub fn position(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, ExportDiff::position).min(self.details.info.size);
        self.details.info.size.saturating_mul(self.done) + current
    }

    /// Returns the stream's next bytes, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<List>, Error> {
        if let Some(header) = self.header.take() {
            return Ok(Some(header));
        }
        loop {
            if let Some(current) = &mut self.current {
                if let Some(bytes) = current.next().await? {
                    return Ok(Some(bytes));
                }
                self.current = None;
                self.done += 1;
            }
            let Some(to) = self.points.pop_front() else { return Ok(None) };
            let from = self.last.replace(to.clone());
            let diff = Diff::between(&self.image, &self.details, from, to, &DiffOptions::new()).await?;
            self.current = Some(ExportDiff::of(&self.image, diff, DiffVersion::V2).await?);
        }
    }
}
