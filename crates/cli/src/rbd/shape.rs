//! What a new image is like, and how it is made.

use crate::failure::Failure;
use crate::interrupt;
use crate::size;
use onego::ceph::ImageDefaults;
use onego::rados::{Cluster, Pool};
use onego::rbd::{self, CreateOptions, Features, ImageFormat, ImageInfo, ImportOptions, Layout};
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
    /// In which form its header is kept, where that is asked for ([`FormatOption`]).
    #[arg(skip)]
    format: ImageFormat,
}

/// What makes images of format 1, for which Ceph's programs ask, too.
const ALLOW_V1: &str = "RBD_FORCE_ALLOW_V1";

/// The format of a new image.
#[derive(clap::Args)]
pub(crate) struct FormatOption {
    /// The image's format: 2, or 1, which is deprecated and has no features [default: the configuration's
    /// rbd_default_format, or 2]
    #[arg(long, value_name = "N")]
    image_format: Option<ImageFormat>,
}

impl FormatOption {
    /// Is format 1 asked for?
    pub(super) fn is_old(&self) -> bool {
        self.image_format == Some(ImageFormat::V1)
    }
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

    /// The same in the format that is asked for, or that the configuration says. Where an option says what format 1 does not have, the
    /// format is 2.
    pub(super) fn in_format(
        mut self,
        option: &FormatOption,
        defaults: &ImageDefaults,
    ) -> Result<Self, Failure> {
        let lacking = [
            (!self.image_feature.is_empty(), "features"),
            (self.stripe_unit.is_some(), "non-default striping"),
            (self.data_pool.is_some(), "data pool"),
        ];
        let lacking = lacking.into_iter().find(|(is_said, _)| *is_said).map(|(_, what)| what);
        self.format = match (option.image_format, lacking) {
            (Some(ImageFormat::V1), Some(what)) => {
                let reason = format!("{what} not allowed with format 1; use --image-format 2");
                return Err(Failure::Usage(reason));
            }
            (Some(format), _) => format,
            (None, Some(_)) => ImageFormat::V2,
            (None, None) => defaults.format.unwrap_or_default(),
        };
        if option.is_old() {
            interrupt::say("image format 1 is deprecated");
        }
        if self.format == ImageFormat::V1 && std::env::var_os(ALLOW_V1).is_none() {
            return Err(Failure::Usage(format!(
                "images of format 1 are made only where {ALLOW_V1} is set in the environment: make one of format 2"
            )));
        }
        Ok(self.or(defaults))
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
        options.data_pool = self.data_pool(cluster).await?;
        Ok(options)
    }

    /// What is made of a stream: as that says, but for what the options say.
    pub(super) async fn over_a_stream(&self, cluster: &Cluster) -> Result<ImportOptions, Failure> {
        let mut options = ImportOptions::default();
        let says_layout = self.object_size.is_some() || self.stripe_unit.is_some() || self.order.is_some();
        options.layout = says_layout.then(|| self.layout()).transpose()?;
        options.features = self.features();
        options.data_pool = self.data_pool(cluster).await?;
        Ok(options)
    }

    /// The pool of the data that the options say.
    async fn data_pool(&self, cluster: &Cluster) -> Result<Option<Pool>, Failure> {
        match &self.data_pool {
            Some(name) => Ok(Some(cluster.pool(name).await?)),
            None => Ok(None),
        }
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

    /// A new image of `size` bytes, of format 2.
    pub(super) async fn new_image(&self, cluster: &Cluster, size: u64) -> Result<CreateOptions, Failure> {
        let features = self.features().unwrap_or(Features::LAYERING);
        let mut options = CreateOptions::new(size).with_layout(self.layout()?).with_features(features);
        options.data_pool = self.data_pool(cluster).await?;
        Ok(options)
    }

    pub(crate) async fn create(
        &self,
        pool: &Pool,
        name: &str,
        size: u64,
        metadata: BTreeMap<String, Vec<u8>>,
    ) -> Result<(), Failure> {
        let mut options = match self.format {
            ImageFormat::V1 => {
                let layout = Layout::plain(self.layout()?.order()).map_err(onego::ceph::Error::from)?;
                CreateOptions::new(size).with_layout(layout).with_old_format()
            }
            ImageFormat::V2 => self.new_image(pool.cluster(), size).await?,
        };
        options.metadata = metadata;
        Ok(rbd::create(pool, name, &options).await?)
    }
}
