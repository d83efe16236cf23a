//! Import of image streams, as by `rbd import --export-format 2`.

use super::super::create::{CreateOptions, create};
use super::apply::{DiffTarget, GRAIN};
use super::import_diff::refused;
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::Segment;
use onego_ceph::rbd::{Features, Layout};
use onego_rbd::stream::{DiffEvent, ImageDecoder, ImageEvent, ImageRecord};
use std::collections::BTreeMap;

const MAX_METADATA: usize = 16 << 20;

/// Overrides of an imported image's properties in its stream.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Layout of the data in objects.
    pub layout: Option<Layout>,
    /// Features of the image.
    pub features: Option<Features>,
    /// Pool of the data.
    pub data_pool: Option<Pool>,
    /// Metadata in addition to that in the stream.
    pub metadata: BTreeMap<String, Vec<u8>>,
    /// Size of zeroed blocks that are not written, in bytes; defaults to 4096.
    pub grain: Option<u64>,
}

/// Creates an image with its snapshots from a stream of [`ExportImage`](super::ExportImage) or `rbd export
/// --export-format 2`.
pub struct ImportImage {
    pool: Pool,
    name: String,
    options: ImportOptions,
    decoder: ImageDecoder,
    shape: ImageShape,
    target: DiffTarget,
    start: u64,
    record: u64,
}

#[derive(Debug, Default)]
struct ImageShape {
    order: Option<u64>,
    features: Option<u64>,
    stripe_unit: u64,
    stripe_count: u64,
    metadata: BTreeMap<String, Vec<u8>>,
    metadata_bytes: usize,
}

impl ImageShape {
    fn learn(&mut self, record: ImageRecord) -> Result<(), Error> {
        match record {
            ImageRecord::Order(order) => self.order = Some(order),
            ImageRecord::Features(features) => self.features = Some(features),
            ImageRecord::StripeUnit(unit) => self.stripe_unit = unit,
            ImageRecord::StripeCount(count) => self.stripe_count = count,
            ImageRecord::Metadata { key, value } => {
                self.metadata_bytes += key.len() + value.len();
                if self.metadata_bytes > MAX_METADATA {
                    return Err(Error::Invalid(format!(
                        "the image has more than {MAX_METADATA} bytes of metadata"
                    )));
                }
                self.metadata.insert(key, value);
            }
            ImageRecord::Begin | ImageRecord::Format(_) | ImageRecord::Diffs(_) => {}
        }
        Ok(())
    }

    fn layout(&self) -> Result<Layout, Error> {
        // An order out of range is refused as invalid.
        let order = self.order.map_or(22, |order| u8::try_from(order).unwrap_or(u8::MAX));
        Ok(Layout::striped(order, self.stripe_unit, self.stripe_count)?)
    }
}

impl ImportImage {
    /// Creates an import to a new image called `name`.
    pub fn new(pool: &Pool, name: &str, options: ImportOptions) -> Self {
        let target = DiffTarget::new(pool, name, options.grain.unwrap_or(GRAIN));
        Self {
            pool: pool.clone(),
            name: name.to_owned(),
            options,
            decoder: ImageDecoder::new(),
            shape: ImageShape::default(),
            target,
            start: 0,
            record: 0,
        }
    }

    /// Skips the first `start` bytes of the stream, which were applied before according to
    /// [`applied`](Self::applied). The image must exist.
    pub fn resume(&mut self, start: u64) {
        self.start = start.max(1);
        self.target.resume();
    }

    /// Adds the stream's next bytes. Their writes may still be in flight when this returns.
    pub async fn push(&mut self, bytes: impl Into<Segment>) -> Result<(), Error> {
        self.decoder.push(bytes);
        loop {
            let before = self.decoder.position();
            let Some(event) = self.decoder.next_event().map_err(|error| refused(&self.name, error))? else {
                return Ok(());
            };
            match event {
                ImageEvent::Record(record) => {
                    let is_last = matches!(record, ImageRecord::Diffs(_));
                    self.shape.learn(record)?;
                    if is_last && self.start == 0 {
                        self.create().await?;
                    }
                }
                ImageEvent::Diff(event) => {
                    if let DiffEvent::Record(_) = event {
                        self.record = before;
                    }
                    if self.record < self.start {
                        self.target.pass_over(&event);
                    } else {
                        self.target.apply(event).await?;
                    }
                }
            }
        }
    }

    async fn create(&mut self) -> Result<(), Error> {
        let mut options = CreateOptions::new(0);
        options.layout = self.options.layout.map_or_else(|| self.shape.layout(), Ok)?;
        let features = self.shape.features.map_or(Features::LAYERING, Features);
        // These features are implied by others.
        let features = features.without(Features::STRIPING).without(Features::DATA_POOL);
        options.features = self.options.features.unwrap_or(features);
        options.data_pool.clone_from(&self.options.data_pool);
        options.metadata = self.shape.metadata.clone();
        options.metadata.extend(self.options.metadata.clone());
        create(&self.pool, &self.name, &options).await
    }

    /// Returns whether the image has been created.
    pub fn is_created(&self) -> bool {
        self.record > 0
    }

    /// Waits for all pushed data to be written, and returns the number of stream bytes that need not be applied
    /// again.
    pub async fn applied(&mut self) -> Result<u64, Error> {
        self.target.drain().await?;
        Ok(if self.decoder.data_left() > 0 { self.record } else { self.decoder.position() })
    }

    /// Ends the stream; fails if it is incomplete. On success everything is durable and the snapshots exist.
    pub async fn finish(self) -> Result<(), Error> {
        self.decoder.finish().map_err(|error| refused(&self.name, error))
    }

    /// Stops early, and waits for the writes in flight.
    pub async fn abandon(mut self) -> Result<(), Error> {
        self.target.close().await
    }
}
