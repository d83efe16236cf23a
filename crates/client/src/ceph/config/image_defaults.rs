use super::settings::Settings;
use crate::ceph::error::Error;
use onego_ceph::rbd::{Features, ImageFormat};
use std::str::FromStr;

/// Defaults for new images (`rbd_default_features` and similar settings).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImageDefaults {
    /// Features (`rbd_default_features`: names separated by commas, or a number).
    pub features: Option<Features>,
    /// Binary logarithm of the object size in bytes (`rbd_default_order`).
    pub order: Option<u8>,
    /// Stripe unit in bytes (`rbd_default_stripe_unit`); 0 means the object size.
    pub stripe_unit: Option<u64>,
    /// Number of objects in a stripe (`rbd_default_stripe_count`).
    pub stripe_count: Option<u64>,
    /// Data pool (`rbd_default_data_pool`).
    pub data_pool: Option<String>,
    /// Format of the header (`rbd_default_format`: 1 or 2).
    pub format: Option<ImageFormat>,
    /// Format in which parents record clones: 1, 2 or auto (`rbd_default_clone_format`).
    pub clone_format: Option<String>,
}

impl ImageDefaults {
    pub(super) fn read(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            features: setting(settings, "rbd_default_features")?.map(|ReadFeatures(features)| features),
            order: setting(settings, "rbd_default_order")?,
            stripe_unit: setting(settings, "rbd_default_stripe_unit")?,
            stripe_count: setting(settings, "rbd_default_stripe_count")?,
            data_pool: setting(settings, "rbd_default_data_pool")?,
            format: setting(settings, "rbd_default_format")?,
            clone_format: setting(settings, "rbd_default_clone_format")?,
        })
    }
}

struct ReadFeatures(Features);

impl FromStr for ReadFeatures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(bits) => Ok(Self(Features(bits))),
            Err(_) => text.parse().map(Self),
        }
    }
}

/// Returns a setting unless it is unset or empty.
fn setting<T: FromStr<Err: ToString>>(settings: &Settings, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = settings.get(name).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let read = text.trim().parse().map(Some);
    read.map_err(|error: T::Err| Error::Config {
        place: format!("{name} = {text}"),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::conf_file::ConfFile;
    use super::super::identity::Identity;
    use super::*;
    use std::path::Path;

    fn read(text: &str) -> Result<ImageDefaults, Error> {
        let file = ConfFile::parse(text).unwrap();
        ImageDefaults::read(&Settings::new(Some((Path::new("ceph.conf"), file)), &Identity::default()))
    }

    #[test]
    fn features_are_names_or_a_number() {
        let features = |value| read(&format!("[client]\nrbd_default_features = {value}\n")).unwrap().features;
        assert_eq!(features("3"), Some(Features(3)));
        assert_eq!(features("layering,exclusive-lock"), Some(Features(5)));
        assert_eq!(read("[client]\n").unwrap(), ImageDefaults::default());
        assert!(read("[client]\nrbd default features = flying\n").is_err());
    }

    #[test]
    fn the_layout_of_images_is_read_too() {
        let defaults = read("[global]\nrbd default order = 20\nrbd_default_data_pool = fast\n").unwrap();
        assert_eq!((defaults.order, defaults.data_pool.as_deref()), (Some(20), Some("fast")));
        let format =
            |value| read(&format!("[client]\nrbd_default_format = {value}\n")).map(|read| read.format);
        assert_eq!(format("1").unwrap(), Some(ImageFormat::V1));
        assert!(format("3").is_err());
    }
}
