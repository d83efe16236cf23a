//! What `rbd import --export-format 2` does.

use super::super::create::{CreateOptions, create};
use super::apply::{DiffTarget, GRAIN};
use super::import_diff::refused;
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::Segment;
use onego_ceph::rbd::{Features, Layout};
use onego_rbd::stream::{DiffEvent, ImageDecoder, ImageEvent, ImageRecord};
use std::collections::BTreeMap;

/// Most bytes of all keys and values together.
const MAX_METADATA: usize = 16 << 20;

/// What is said of a new image instead of what its stream says.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// How its bytes lie in objects.
    pub layout: Option<Layout>,
    /// Its features.
    pub features: Option<Features>,
    /// Where its data goes.
    pub data_pool: Option<Pool>,
    /// What is noted at it beside what the stream has.
    pub metadata: BTreeMap<String, Vec<u8>>,
    /// Bytes of a block that is not written if it is zeros; none: 4096.
    pub grain: Option<u64>,
}

/// Makes an image, with its snapshots, of what [`ExportImage`](super::ExportImage), or `rbd export --export-format 2`, has
/// written.
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

/// What the stream says of the image.
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
                        "more than {MAX_METADATA} bytes are noted at the image"
                    )));
                }
                self.metadata.insert(key, value);
            }
            ImageRecord::Begin | ImageRecord::Format(_) | ImageRecord::Diffs(_) => {}
        }
        Ok(())
    }

    fn layout(&self) -> Result<Layout, Error> {
        // What does not fit is no order, and is refused as one.
        let order = self.order.map_or(22, |order| u8::try_from(order).unwrap_or(u8::MAX));
        Ok(Layout::striped(order, self.stripe_unit, self.stripe_count)?)
    }
}

impl ImportImage {
    /// As an image called `name`, which must be new.
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

    /// The image is there, and the first bytes of the stream were applied before: those that [`applied`](Self::applied) gave.
    pub fn resume(&mut self, start: u64) {
        self.start = start.max(1);
        self.target.resume();
    }

    /// The next bytes of the stream. They are written when this returns, or will be.
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
        // These follow from the rest.
        let features = features.without(Features::STRIPING).without(Features::DATA_POOL);
        options.features = self.options.features.unwrap_or(features);
        options.data_pool.clone_from(&self.options.data_pool);
        options.metadata = self.shape.metadata.clone();
        options.metadata.extend(self.options.metadata.clone());
        create(&self.pool, &self.name, &options).await
    }

    /// Is the image there?
    pub fn is_created(&self) -> bool {
        self.record > 0
    }

    /// Waits until everything is written that was pushed, and gives how many bytes of the stream need not be applied again.
    pub async fn applied(&mut self) -> Result<u64, Error> {
        self.target.drain().await?;
        Ok(if self.decoder.data_left() > 0 { self.record } else { self.decoder.position() })
    }

    /// The stream is over: fails unless it is whole. All is durable, and the snapshots are made.
    pub async fn finish(self) -> Result<(), Error> {
        self.decoder.finish().map_err(|error| refused(&self.name, error))
    }

    /// Ends early: what is under way is waited for.
    pub async fn abandon(mut self) -> Result<(), Error> {
        self.target.close().await
    }
}
