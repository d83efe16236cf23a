//! What a new image is like, and how it is made.

use crate::failure::Failure;
use crate::size;
use onego::rados::Pool;
use onego::rbd::{self, CreateOptions, Features, Layout};
use std::collections::BTreeMap;

/// How the bytes of a new image lie in the cluster.
#[derive(clap::Args)]
pub(crate) struct Shape {
    /// Bytes of an object: a power of two from 4K to 32M
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size::bytes)]
    object_size: u64,
    /// Bytes that go to an object before the next one's turn
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "stripe_count")]
    stripe_unit: Option<u64>,
    /// Objects that bytes go round
    #[arg(long, value_name = "N", requires = "stripe_unit")]
    stripe_count: Option<u64>,
    /// The pool of the data, if it is not the image's
    #[arg(long, value_name = "POOL")]
    data_pool: Option<String>,
    /// Features of the image; may be given more than once
    #[arg(long, value_name = "FEATURES", default_value = "layering")]
    image_feature: Vec<Features>,
}

impl Shape {
    pub(crate) fn layout(&self) -> Result<Layout, Failure> {
        if !self.object_size.is_power_of_two() {
            return Err(Failure::Usage(format!("object size {} is no power of two", self.object_size)));
        }
        let order = self.object_size.ilog2() as u8;
        let layout = Layout::striped(order, self.stripe_unit.unwrap_or(0), self.stripe_count.unwrap_or(0));
        Ok(layout.map_err(onego::ceph::Error::from)?)
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
        let features = self.image_feature.iter().fold(Features::NONE, |all, some| all.with(*some));
        let mut options = CreateOptions::new(size).with_layout(self.layout()?).with_features(features);
        options.data_pool = data_pool;
        options.metadata = metadata;
        Ok(rbd::create(pool, name, &options).await?)
    }
}
