//! What a caller wants of a new image.

use super::options::{ImageOptions, option};
use crate::border::Errno;
use crate::rados::IoCtx;
use crate::runtime::block_on;
use onego::rbd::clones::CloneFormat;
use onego::rbd::upkeep::CopyKind;
use onego::rbd::{CreateOptions, Features, ImageFormat, ImageInfo, Layout};

/// What a caller says of a new image. The rest is as with the image that it is made of, or as the configuration says.
#[derive(Default, Clone)]
pub(super) struct NewImage {
    pub(super) size: u64,
    pub(super) features: Option<u64>,
    /// Features that are set and cleared besides.
    pub(super) changed: (u64, u64),
    pub(super) order: u64,
    pub(super) stripe_unit: u64,
    pub(super) stripe_count: u64,
    pub(super) data_pool: Option<String>,
    pub(super) flatten: bool,
    /// How a clone is noted at its parent.
    pub(super) format: Option<CloneFormat>,
    /// In which form the header is kept.
    pub(super) image_format: Option<ImageFormat>,
}

/// What has librbd make images of format 1, which it refuses without it.
const ALLOW_V1: &str = "RBD_FORCE_ALLOW_V1";

impl NewImage {
    pub(super) fn sized(size: u64, features: Option<u64>) -> Self {
        // Only where nothing is said of features the format is what the configuration says.
        let image_format = features.map(|_| ImageFormat::V2);
        Self { size, features, image_format, ..Self::default() }
    }

    pub(super) fn of(options: &ImageOptions) -> Result<Self, Errno> {
        let number = |option| options.number(option).unwrap_or(0);
        let format = match options.number(option::CLONE_FORMAT) {
            Some(1) => Some(CloneFormat::Listed),
            Some(2) => Some(CloneFormat::Counted),
            Some(_) => return Err(Errno::INVAL),
            None => None,
        };
        Ok(Self {
            size: 0,
            features: options.number(option::FEATURES),
            changed: (number(option::FEATURES_SET), number(option::FEATURES_CLEAR)),
            order: number(option::ORDER),
            stripe_unit: number(option::STRIPE_UNIT),
            stripe_count: number(option::STRIPE_COUNT),
            data_pool: options.text(option::DATA_POOL),
            flatten: number(option::FLATTEN) != 0,
            format,
            image_format: options.number(option::FORMAT).map(image_format),
        })
    }

    /// What an image in the pool of a handle is to be, if nothing else is said as `like`.
    pub(super) fn options(&self, ioctx: &IoCtx, like: Option<&ImageInfo>) -> Result<CreateOptions, Errno> {
        let conf = ioctx.rados().conf().clone();
        let default = || if like.is_none() { conf.number("rbd_default_format") } else { None };
        let format = self.image_format.or_else(|| default().map(image_format)).unwrap_or_default();
        if format == ImageFormat::V1 {
            return self.of_old_format(like, |name| conf.number(name));
        }
        let layout = self.layout(like, |name| conf.number(name))?;
        let inherited = like.map(|like| like.features.without(Features::NOT_INHERITED).0);
        let features =
            self.features.or(inherited).map(|features| Features(features).without(Features::STRIPING));
        // Those of the defaults that can be kept true.
        let default = || Features(conf.number("rbd_default_features").unwrap_or(61) & Features::WRITABLE.0);
        let (set, clear) = self.changed;
        let features = features.unwrap_or_else(default).with(Features(set)).without(Features(clear));
        let mut options = CreateOptions::new(self.size).with_layout(layout).with_features(features);
        let default_pool = || conf.get("rbd_default_data_pool").filter(|name| !name.is_empty());
        if let Some(name) = self.data_pool.clone().or_else(default_pool) {
            options = options.with_data_pool(block_on(ioctx.client().cluster().pool(&name))?);
        }
        Ok(options)
    }

    /// The same in format 1, where an image has neither features nor stripes.
    fn of_old_format(
        &self,
        like: Option<&ImageInfo>,
        configured: impl Fn(&str) -> Option<u64>,
    ) -> Result<CreateOptions, Errno> {
        let order = self.order(like, configured)?;
        if std::env::var_os(ALLOW_V1).is_none() {
            return Err(Errno::INVAL);
        }
        let layout = Layout::plain(order).map_err(|_| Errno(libc::EDOM))?;
        Ok(CreateOptions::new(self.size).with_layout(layout).with_old_format())
    }

    /// Is the copy of a clone one, too?
    pub(super) fn copy_kind(&self) -> CopyKind {
        match self.flatten {
            true => CopyKind::Flat,
            false => self.format.map_or(CopyKind::AsSource, CopyKind::Clone),
        }
    }

    /// How a clone is noted at its parent; `None`: as the cluster's clients know it.
    pub(super) fn clone_format(&self, ioctx: &IoCtx) -> Option<CloneFormat> {
        let configured = || match ioctx.rados().conf().get("rbd_default_clone_format").as_deref() {
            Some("1") => Some(CloneFormat::Listed),
            Some("2") => Some(CloneFormat::Counted),
            _ => None,
        };
        self.format.or_else(configured)
    }

    fn layout(
        &self,
        like: Option<&ImageInfo>,
        configured: impl Fn(&str) -> Option<u64>,
    ) -> Result<Layout, Errno> {
        let is_said = self.order > 0 || self.stripe_unit > 0 || self.stripe_count > 0;
        if let Some(like) = like.filter(|_| !is_said) {
            return Ok(like.layout);
        }
        let striped = like.map(|like| &like.layout).filter(|layout| layout.is_striped());
        let or = |value: u64, of_like: Option<u64>, name: &str| match value {
            0 => of_like.or_else(|| configured(name)).unwrap_or(0),
            value => value,
        };
        let order = self.order(like, &configured)?;
        let unit = or(self.stripe_unit, striped.map(Layout::stripe_unit), "rbd_default_stripe_unit");
        let count = or(self.stripe_count, striped.map(Layout::stripe_count), "rbd_default_stripe_count");
        let plain = Layout::plain(order).map_err(|_| Errno(libc::EDOM))?;
        match (unit, count) {
            (0, 0) => Ok(plain),
            (0, _) | (_, 0) => Err(Errno::INVAL),
            (unit, count) => Layout::striped(order, unit, count).map_err(|_| Errno::INVAL),
        }
    }

    fn order(&self, like: Option<&ImageInfo>, configured: impl Fn(&str) -> Option<u64>) -> Result<u8, Errno> {
        let order = match self.order {
            0 => like
                .map(|like| like.layout.order().into())
                .or_else(|| configured("rbd_default_order"))
                .unwrap_or(22),
            order => order,
        };
        u8::try_from(order).map_err(|_| Errno(libc::EDOM))
    }
}

/// A format by its number: of all, librbd takes 1 alone for the first.
fn image_format(number: u64) -> ImageFormat {
    if number == 1 { ImageFormat::V1 } else { ImageFormat::V2 }
}
