//! How commands name images, snapshots, pools and groups, as `rbd` has it: in one word, or by options.

use crate::failure::Failure;
use crate::spec::{DEFAULT_POOL, PoolSpec, SnapSpec};
use onego::rados::{Cluster, Pool};
use std::fmt;

/// Options that name a pool and what is in it.
#[derive(clap::Args, Default)]
pub(crate) struct PoolOptions {
    /// The pool, if no name has one [default: rbd]
    #[arg(short, long)]
    pool: Option<String>,
    /// The namespace, if no name has one
    #[arg(long)]
    namespace: Option<String>,
}

/// Options that name an image.
#[derive(clap::Args, Default)]
pub(crate) struct ImageOptions {
    #[command(flatten)]
    place: PoolOptions,
    /// The image, named as an option
    #[arg(long)]
    image: Option<String>,
}

/// Options that name a snapshot.
#[derive(clap::Args, Default)]
pub(crate) struct SnapOptions {
    #[command(flatten)]
    image: ImageOptions,
    /// The snapshot, named as an option
    #[arg(long)]
    snap: Option<String>,
}

/// Options that name what is made.
#[derive(clap::Args, Default)]
pub(crate) struct DestOptions {
    /// The pool of what is made
    #[arg(long)]
    dest_pool: Option<String>,
    /// The namespace of what is made
    #[arg(long)]
    dest_namespace: Option<String>,
    /// What is made, named as an option
    #[arg(long)]
    dest: Option<String>,
}

/// An image or a group, and perhaps a snapshot of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(super) place: PoolSpec,
    pub(super) name: String,
    pub(super) snap: Option<String>,
}

impl Named {
    pub(super) async fn pool(&self, cluster: &Cluster) -> Result<Pool, onego::ceph::Error> {
        self.place.open(cluster).await
    }

    /// The snapshot that was checked to be named.
    pub(super) fn snap(&self) -> &str {
        self.snap.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.place, self.name)?;
        self.snap.iter().try_for_each(|snap| write!(f, "@{snap}"))
    }
}

/// Is a snapshot named?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Snap {
    Must,
    May,
    MustNot,
}

impl PoolOptions {
    /// The place that a word or the options name.
    pub(super) fn pool(&self, word: Option<&PoolSpec>) -> PoolSpec {
        match word {
            Some(place) => place.clone(),
            None => self.place(),
        }
    }

    fn place(&self) -> PoolSpec {
        PoolSpec {
            pool: self.pool.clone().unwrap_or_else(|| DEFAULT_POOL.to_owned()),
            namespace: self.namespace.clone().unwrap_or_default(),
        }
    }

    /// What a word names, with the options for what it leaves out.
    pub(super) fn named(&self, word: &str, what: &str, snap: Snap) -> Result<Named, Failure> {
        let spec: SnapSpec = word.parse().map_err(Failure::Usage)?;
        let place = spec.image.place_or(self.place());
        let named = Named { place, name: spec.image.image, snap: spec.snapshot };
        named.check(what, snap)
    }
}

impl Named {
    fn check(self, what: &str, snap: Snap) -> Result<Self, Failure> {
        match (snap, &self.snap) {
            (Snap::Must, None) => Err(Failure::Usage("snapshot name was not specified".into())),
            (Snap::MustNot, Some(_)) => {
                Err(Failure::Usage(format!("{self} names a snapshot, and not {what}")))
            }
            _ => Ok(self),
        }
    }
}

impl ImageOptions {
    /// The image that a word or the options name.
    pub(super) fn image(&self, word: Option<&str>) -> Result<Named, Failure> {
        self.named(word, Snap::MustNot)
    }

    fn named(&self, word: Option<&str>, snap: Snap) -> Result<Named, Failure> {
        match (word, &self.image) {
            (Some(word), None) => self.place.named(word, "an image", snap),
            (None, Some(image)) => self.place.named(image, "an image", snap),
            (Some(word), Some(image)) => {
                Err(Failure::Usage(format!("both {word} and --image {image} name the image: leave one out")))
            }
            (None, None) => Err(Failure::Usage("image name was not specified".into())),
        }
    }

    /// The image, and the other words of a command, of which there must be `count`. The first is the image's unless an option
    /// names it.
    pub(super) fn image_and<'a>(
        &self,
        words: &'a [String],
        count: std::ops::RangeInclusive<usize>,
        what: &str,
    ) -> Result<(Named, &'a [String]), Failure> {
        let (image, rest) = match (&self.image, words) {
            (None, [image, rest @ ..]) => (self.image(Some(image))?, rest),
            (_, words) => (self.image(None)?, words),
        };
        match rest.len() {
            words if count.contains(&words) => Ok((image, rest)),
            words if words < *count.start() => Err(Failure::Usage(format!("{what} was not specified"))),
            _ => Err(Failure::Usage("too many arguments".into())),
        }
    }
}

impl SnapOptions {
    /// Does an option name an image?
    pub(super) fn names_an_image(&self) -> bool {
        self.image.image.is_some()
    }

    /// The place that the options name.
    pub(super) fn pool(&self) -> PoolSpec {
        self.image.place.place()
    }

    /// The image, and the snapshot if there is to be one, that a word or the options name.
    pub(super) fn named(&self, word: Option<&str>, snap: Snap) -> Result<Named, Failure> {
        let mut named = self.image.named(word, Snap::May)?;
        if let Some(snap) = &self.snap {
            named.snap = Some(snap.clone());
        }
        named.check("an image", snap)
    }
}

impl DestOptions {
    /// Do they say what is to be made, and not only where?
    pub(super) fn has_name(&self) -> bool {
        self.dest.is_some()
    }

    /// What is to be made; where its pool is not said, it is that of `source`.
    pub(super) fn named(&self, word: Option<&str>, source: &PoolSpec, snap: Snap) -> Result<Named, Failure> {
        let options = PoolOptions {
            pool: Some(self.dest_pool.clone().unwrap_or_else(|| source.pool.clone())),
            namespace: self
                .dest_namespace
                .clone()
                .or_else(|| Some(source.namespace.clone()).filter(|_| self.dest_pool.is_none())),
        };
        match word.or(self.dest.as_deref()) {
            Some(word) => options.named(word, "an image", snap),
            None => Err(Failure::Usage("destination image name was not specified".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pool: &str, image: Option<&str>, snap: Option<&str>) -> SnapOptions {
        let place = PoolOptions { pool: Some(pool.to_owned()), namespace: Some("ns".to_owned()) };
        let image = ImageOptions { place, image: image.map(str::to_owned) };
        SnapOptions { image, snap: snap.map(str::to_owned) }
    }

    #[test]
    fn words_and_options_name_the_same() {
        let word = SnapOptions::default().named(Some("fast/ns/disk@monday"), Snap::Must).ok().unwrap();
        let option = options("fast", Some("disk"), Some("monday")).named(None, Snap::Must).ok().unwrap();
        assert_eq!(word, option);
        assert_eq!(word.to_string(), "fast/ns/disk@monday");
        assert!(options("fast", Some("disk"), None).named(Some("disk"), Snap::May).is_err());
    }

    #[test]
    fn a_snapshot_is_named_where_one_is_wanted_and_nowhere_else() {
        let named = |word, snap| SnapOptions::default().named(Some(word), snap);
        assert!(named("disk", Snap::Must).is_err() && named("disk@a", Snap::MustNot).is_err());
        assert!(named("disk", Snap::May).is_ok() && named("disk@a", Snap::May).is_ok());
    }

    #[test]
    fn what_is_made_is_in_the_pool_of_the_source_unless_said_otherwise() {
        let source = PoolSpec { pool: "fast".into(), namespace: "ns".into() };
        let made =
            |word| DestOptions::default().named(Some(word), &source, Snap::MustNot).ok().unwrap().to_string();
        assert_eq!(made("copy"), "fast/ns/copy");
        assert_eq!(made("slow/copy"), "slow/copy");
    }

    #[test]
    fn an_image_named_by_an_option_leaves_all_words_to_the_command() {
        let words = ["key".to_owned(), "value".to_owned()];
        let (image, rest) =
            options("p", Some("disk"), None).image.image_and(&words, 2..=2, "key").ok().unwrap();
        assert_eq!((image.name.as_str(), rest.len()), ("disk", 2));
        let (image, rest) = ImageOptions::default().image_and(&words, 1..=1, "key").ok().unwrap();
        assert_eq!((image.name.as_str(), rest), ("key", &words[1..]));
        assert!(ImageOptions::default().image_and(&words, 2..=2, "value").is_err());
    }
}
