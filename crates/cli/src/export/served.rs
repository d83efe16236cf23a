//! What is exported: a device, or all images of a pool.

use crate::device::{Opener, Prepared, Source};
use crate::failure::Failure;
use crate::partial_import::IncompleteArgs;
use crate::spec::{PoolSpec, SnapSpec};
use clap::builder::{OsStringValueParser, TypedValueParser};
use onego::block::{Export, Host};
use onego::rbd;
use onego_export::nbd::EXPORTS_MAX;
use std::fmt;
use std::str::FromStr;

/// Something that is served.
#[derive(Debug, Clone)]
pub(crate) enum Served {
    Device(Source),
    /// The images that a pool has when the server starts.
    Pool(PoolSpec),
}

impl FromStr for Served {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("rbd:").and_then(|place| place.strip_suffix('/')) {
            Some(place) => Ok(Self::Pool(place.parse()?)),
            None => text.parse().map(Self::Device),
        }
    }
}

impl Served {
    /// Reads what to serve from the command line, where names of files may be any bytes.
    pub(super) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text| match text.to_str() {
            Some(text) => text.parse(),
            None => Source::from_os(&text).map(Self::Device),
        })
    }

    pub(super) fn is_of_cluster(&self) -> bool {
        match self {
            Self::Device(source) => source.is_image(),
            Self::Pool(_) => true,
        }
    }

    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Self::Device(Source::Memory(_)))
    }

    /// May any number of threads open it, each for itself?
    pub(super) fn takes_many_threads(&self) -> bool {
        match self {
            Self::Device(source) => source.takes_many_threads(),
            Self::Pool(_) => false,
        }
    }

    /// What clients call it; `None`: there are many.
    pub(super) fn export_name(&self, pool: Option<&str>) -> Option<String> {
        match self {
            Self::Device(source) => Some(source.export_name(pool)),
            Self::Pool(_) => None,
        }
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(source) => write!(f, "{source}"),
            Self::Pool(place) => write!(f, "rbd:{place}/"),
        }
    }
}

/// The images of a pool, as if each was named. More than a server takes are an error.
pub(super) fn images<E: Export>(
    host: &mut Host<E>,
    opener: &mut Opener<'_>,
    place: &PoolSpec,
    incomplete: IncompleteArgs,
) -> Result<Vec<(Source, Prepared)>, Failure> {
    let cluster = opener.cluster(host)?;
    let mut images = Vec::new();
    let listed = host.block_on(async {
        let mut names = rbd::list(&place.open(&cluster).await?);
        while images.len() <= EXPORTS_MAX
            && let Some(name) = names.try_next().await?
        {
            let image = SnapSpec::head(place.image(&name));
            let prepared = Prepared::image(&image, incomplete);
            images.push((Source::Image(image), prepared));
        }
        Ok::<_, onego::ceph::Error>(())
    });
    listed??;
    if images.len() > EXPORTS_MAX {
        let why =
            format!("{place} has more than {EXPORTS_MAX} images, which one server cannot serve: name some");
        return Err(Failure::Usage(why));
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_an_image_without_a_name() {
        let name =
            |text: &str| text.parse::<Served>().map(|served| (served.export_name(None), served.to_string()));
        assert_eq!(name("rbd:pool/"), Ok((None, "rbd:pool/".to_owned())));
        assert_eq!(name("rbd:pool/ns/"), Ok((None, "rbd:pool/ns/".to_owned())));
        assert_eq!(name("rbd:disk"), Ok((Some("rbd/disk".to_owned()), "rbd:disk".to_owned())));
        assert!(name("rbd:/").is_err());
        assert!(name("rbd:").is_err());
    }
}
