//! What a new image is like, and how it is made.

use crate::failure::Failure;
use crate::size;
use onego::ceph::ImageDefaults;
use onego::rados::{Cluster, Pool};
use onego::rbd::{self, CreateOptions, Features, ImageInfo, ImportOptions, Layout};
use std::collections::BTreeMap;

/// 4 MiB (`rbd_default_order`).
const DEFAULT_ORDER: u8 = 22;

/// How the bytes of a new image lie in the cluster.
#[derive(clap::Args, Clone)]
pub(crate) struct Shape {
    /// Bytes of an object: a power of two from 4K to 32M [default: 4M]
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    object_size: Option<u64>,
    /// Logarithm of the bytes of an object
    #[arg(long, hide = true, conflicts_with = "object_size")]
    order: Option<u8>,
    /// Bytes that go to an object before the next one's turn
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "stripe_count")]
    stripe_unit: Option<u64>,
    /// Objects that bytes go round
    #[arg(long, value_name = "N", requires = "stripe_unit")]
    stripe_count: Option<u64>,
    /// The pool of the data, if it is not the image's
    #[arg(long, value_name = "POOL")]
    data_pool: Option<String>,
    /// Features of the image; may be given more than once [default: the configuration's
    /// rbd_default_features, or those of Ceph; those of the image that it is made of]
    #[arg(long, value_name = "FEATURES")]
    image_feature: Vec<Features>,
    /// Only features with which many clients can write at a time
    #[arg(long)]
    image_shared: bool,
}

impl Shape {
    pub(crate) fn layout(&self) -> Result<Layout, Failure> {
        let order = match (self.object_size, self.order) {
            (Some(size), _) if !size.is_power_of_two() => {
                return Err(Failure::Usage(format!("object size {size} is no power of two")));
            }
            (Some(size), _) => size.ilog2() as u8,
            (None, order) => order.unwrap_or(DEFAULT_ORDER),
        };
        let layout = Layout::striped(order, self.stripe_unit.unwrap_or(0), self.stripe_count.unwrap_or(0));
        Ok(layout.map_err(onego::ceph::Error::from)?)
    }

    /// The same, with what the configuration says of new images where the options say nothing. They have the features that
    /// Ceph's program gives them.
    pub(super) fn or(mut self, defaults: &ImageDefaults) -> Self {
        if self.image_feature.is_empty() {
            self.image_feature.push(defaults.features.unwrap_or(Features::DEFAULT));
        }
        if self.object_size.is_none() {
            self.order = self.order.or(defaults.order);
        }
        if self.stripe_unit.is_none() {
            self.stripe_unit = defaults.stripe_unit;
            self.stripe_count = defaults.stripe_count;
        }
        self.data_pool = self.data_pool.or_else(|| defaults.data_pool.clone());
        self
    }

    /// What is made of an image: as that, but for what the options say.
    pub(super) async fn like(&self, source: &ImageInfo, cluster: &Cluster) -> Result<CreateOptions, Failure> {
        let says_layout = self.object_size.is_some() || self.stripe_unit.is_some() || self.order.is_some();
        let layout = if says_layout { self.layout()? } else { source.layout };
        let features = match self.features() {
            Some(features) => features,
            None => source.features.without(Features::NOT_INHERITED),
        };
        let mut options = CreateOptions::new(source.size).with_layout(layout).with_features(features);
        options.data_pool = match &self.data_pool {
            Some(name) => Some(cluster.pool(name).await?),
            None => None,
        };
        Ok(options)
    }

    /// What is made of a stream: as that says, but for what the options say.
    pub(super) async fn over_a_stream(&self, cluster: &Cluster) -> Result<ImportOptions, Failure> {
        let mut options = ImportOptions::default();
        let says_layout = self.object_size.is_some() || self.stripe_unit.is_some() || self.order.is_some();
        options.layout = says_layout.then(|| self.layout()).transpose()?;
        options.features = self.features();
        options.data_pool = match &self.data_pool {
            Some(name) => Some(cluster.pool(name).await?),
            None => None,
        };
        Ok(options)
    }

    /// The features that the options say.
    fn features(&self) -> Option<Features> {
        if self.image_shared {
            // Those that many clients can write at a time with.
            return Some(Features::LAYERING);
        }
        let said = self.image_feature.iter().copied().reduce(Features::with);
        said.filter(|features| !features.is_empty())
    }

    pub(crate) async fn create(
        &self,
        pool: &Pool,
        name: &str,
        size: u64,
        metadata: BTreeMap<String, Vec<u8>>,
    ) -> Result<(), Failure> {
        let data_pool = match &self.data_pool {
            Some(name) => Some(pool.cluster().pool(name).await?),
            None => None,
        };
        let features = self.features().unwrap_or(Features::LAYERING);
        let mut options = CreateOptions::new(size).with_layout(self.layout()?).with_features(features);
        options.data_pool = data_pool;
        options.metadata = metadata;
        Ok(rbd::create(pool, name, &options).await?)
    }
}
