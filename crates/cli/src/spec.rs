//! Names of images and pools as `rbd` has them: `[POOL/[NAMESPACE/]]IMAGE`.

use onego::rados::{Cluster, Pool};
use std::fmt;
use std::str::FromStr;

/// The pool that is meant when none is named, as `rbd` has it.
pub(crate) const DEFAULT_POOL: &str = "rbd";

/// A pool and a namespace in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolSpec {
    pub(crate) pool: String,
    pub(crate) namespace: String,
}

/// An image; without a pool it is in the one that another option names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageSpec {
    place: Option<PoolSpec>,
    pub(crate) image: String,
}

impl PoolSpec {
    pub(crate) fn named(pool: &str) -> Self {
        Self { pool: pool.to_owned(), namespace: String::new() }
    }

    /// An image in it.
    pub(crate) fn image(&self, name: &str) -> ImageSpec {
        ImageSpec { place: Some(self.clone()), image: name.to_owned() }
    }

    /// The pool, if the cluster has it.
    pub(crate) async fn open(&self, cluster: &Cluster) -> Result<Pool, onego::ceph::Error> {
        Ok(cluster.pool(&self.pool).await?.in_namespace(&self.namespace))
    }
}

impl FromStr for PoolSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pool, namespace) = match text.split_once('/') {
            Some((pool, namespace)) if !namespace.is_empty() => (pool, namespace),
            Some(_) => return Err(format!("{text:?} names no namespace behind the pool")),
            None => (text, ""),
        };
        if pool.is_empty() || namespace.contains('/') || text.contains('@') {
            return Err(format!("{text:?} is no pool: write POOL or POOL/NAMESPACE"));
        }
        Ok(Self { pool: pool.to_owned(), namespace: namespace.to_owned() })
    }
}

impl FromStr for ImageSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('@') {
            return Err(format!(
                "{text:?} names a snapshot, and not an image: leave out the @ and the name after it"
            ));
        }
        let (place, image) = match text.rsplit_once('/') {
            Some((place, image)) => (Some(place.parse()?), image),
            None => (None, text),
        };
        if image.is_empty() {
            return Err(format!("{text:?} names no image: write [POOL/[NAMESPACE/]]IMAGE"));
        }
        Ok(Self { place, image: image.to_owned() })
    }
}

/// An image, or a snapshot of it: `[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapSpec {
    pub(crate) image: ImageSpec,
    pub(crate) snapshot: Option<String>,
}

impl FromStr for SnapSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (image, snapshot) = match text.split_once('@') {
            Some((_, "")) => return Err(format!("{text:?} names no snapshot behind @")),
            Some((image, snapshot)) => (image, Some(snapshot.to_owned())),
            None => (text, None),
        };
        Ok(Self { image: image.parse()?, snapshot })
    }
}

impl SnapSpec {
    /// The image without a snapshot.
    pub(crate) fn head(image: ImageSpec) -> Self {
        Self { image, snapshot: None }
    }
}

impl fmt::Display for SnapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.image)?;
        self.snapshot.iter().try_for_each(|snapshot| write!(f, "@{snapshot}"))
    }
}

impl ImageSpec {
    /// Where the image is, if `--pool` says `pool`.
    pub(crate) fn place(&self, pool: Option<&str>) -> PoolSpec {
        self.place_or(PoolSpec::named(pool.unwrap_or(DEFAULT_POOL)))
    }

    /// Where the image is, if options say `other`.
    pub(crate) fn place_or(&self, other: PoolSpec) -> PoolSpec {
        self.place.clone().unwrap_or(other)
    }
}

impl fmt::Display for PoolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pool)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, "/{}", self.namespace) }
    }
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}/{}", self.image),
            None => f.write_str(&self.image),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_as_rbd_names_them() {
        for text in ["disk", "rbd/disk", "rbd/tenant/disk"] {
            assert_eq!(text.parse::<ImageSpec>().unwrap().to_string(), text);
        }
        let spec: ImageSpec = "disk".parse().unwrap();
        assert_eq!(spec.place(None), PoolSpec::named("rbd"));
        assert_eq!(spec.place(Some("fast")), PoolSpec::named("fast"));
        let spec: ImageSpec = "slow/tenant/disk".parse().unwrap();
        let place = PoolSpec { pool: "slow".into(), namespace: "tenant".into() };
        assert_eq!(spec.place(Some("fast")), place);
    }

    #[test]
    fn snapshots_are_named_behind_their_images() {
        let spec: SnapSpec = "rbd/disk@monday".parse().unwrap();
        assert_eq!((spec.image.to_string().as_str(), spec.snapshot.as_deref()), ("rbd/disk", Some("monday")));
        assert_eq!("disk".parse::<SnapSpec>().unwrap().snapshot, None);
        assert!("disk@".parse::<SnapSpec>().is_err());
        assert!("@monday".parse::<SnapSpec>().is_err());
        assert!("disk@a@b".parse::<SnapSpec>().unwrap().snapshot.as_deref() == Some("a@b"));
    }

    #[test]
    fn what_names_no_image_is_refused() {
        for text in ["", "rbd/", "/disk", "a/b/c/d", "rbd//disk", "rbd/disk@snap"] {
            let error = text.parse::<ImageSpec>().unwrap_err();
            assert!(error.contains('"'), "{text}: {error}");
        }
        for text in ["", "rbd/", "/x", "a/b/c", "a@b"] {
            assert!(text.parse::<PoolSpec>().is_err(), "{text}");
        }
    }
}
