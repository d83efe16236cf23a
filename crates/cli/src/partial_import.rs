//! How far the bytes of an image are there, as the image itself says it.
//!
//! A mark names bytes whose writes were acknowledged, and what a cluster acknowledges is durable: unlike the length of a
//! local file, a mark needs no sync before it.

use crate::failure::Failure;
use onego::ErrorKind;
use onego::rados::Pool;
use onego::rbd::{self, ImageInfo};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of one read or write of a file, and of the image: a part of an object, and enough to cost little.
pub(crate) const PIECE: u64 = 1 << 20;

/// Bytes after which the image is told how far it is: little has to be read again, and little is written for it.
pub(crate) const MARK_EVERY: u64 = 256 << 20;

/// How far an image is whose bytes are not all there, as the image itself says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartialImport {
    /// All bytes before this one are there.
    pub(crate) done: u64,
    /// Bytes in all, where that is known.
    pub(crate) of: Option<u64>,
    /// Identity of a file that is imported, and when it was changed.
    pub(crate) source: Option<String>,
}

impl PartialImport {
    /// The key of the image's metadata.
    const KEY: &str = "onego.partial-import";

    /// An import that has not begun.
    pub(crate) fn new(of: Option<u64>, source: Option<String>) -> Self {
        Self { done: 0, of, source }
    }

    /// How far the import of an image is, unless it is done.
    pub(crate) async fn at(pool: &Pool, image: &ImageInfo) -> Result<Option<Self>, onego::ceph::Error> {
        let text = rbd::metadata(pool, image, Self::KEY).await?;
        Ok(text.map(|text| Self::parse(&String::from_utf8_lossy(&text))))
    }

    /// What cannot be read has nothing that could be relied on.
    fn parse(text: &str) -> Self {
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
        let (done, of) = (numbers.next().unwrap_or(0), numbers.next());
        let source = text.split_whitespace().find(|word| word.contains(':')).map(str::to_owned);
        Self { done, of, source }
    }

    /// Finds out how far an earlier import of `of` bytes got. `None`: there is no image yet. `shown` is what the image is
    /// called.
    pub(crate) async fn earlier(
        pool: &Pool,
        name: &str,
        shown: &str,
        of: Option<u64>,
    ) -> Result<Option<Self>, Failure> {
        let found = async {
            let info = rbd::info(pool, name).await?;
            Self::at(pool, &info).await
        };
        match found.await {
            Ok(Some(earlier)) if earlier.of != of => Err(Failure::Usage(format!(
                "the earlier import was of {}, and this is of {}: remove the image to begin anew",
                total(earlier.of),
                total(of)
            ))),
            Ok(Some(earlier)) => Ok(Some(Self { done: earlier.done / PIECE * PIECE, ..earlier })),
            Ok(None) => Err(onego::ceph::Error::Exists { what: format!("{shown} is whole, and") }.into()),
            Err(onego::ceph::Error::NotFound { what }) if what.starts_with("image") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Text of the mark, as the image keeps it.
    fn text(&self) -> String {
        match &self.source {
            Some(source) => format!("{self} of {source}"),
            None => self.to_string(),
        }
    }

    /// The metadata of a new image that says it.
    pub(crate) fn metadata(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([(Self::KEY.to_owned(), self.text().into_bytes())])
    }

    /// Tells the image.
    pub(crate) async fn tell(&self, pool: &Pool, image: &ImageInfo) -> Result<(), onego::ceph::Error> {
        rbd::set_metadata(pool, image, Self::KEY, self.text().as_bytes()).await
    }

    /// The image is whole.
    pub(crate) async fn end(pool: &Pool, image: &ImageInfo) -> Result<(), onego::ceph::Error> {
        rbd::remove_metadata(pool, image, Self::KEY).await
    }
}

/// Treatment of source images that an import or copy has not finished.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(crate) struct IncompleteArgs {
    /// Read the image although an import or copy to it has not finished
    #[arg(long)]
    allow_incomplete: bool,
}

/// The mark of an image applies to its snapshots, too.
impl IncompleteArgs {
    /// Reads any image: for destinations, and for comparisons with what an earlier run wrote.
    pub(crate) const ALLOWED: Self = Self { allow_incomplete: true };

    /// Returns whether an import or copy to the image has not finished, or fails if such images are not allowed. Images whose metadata
    /// the user may not read pass.
    pub(crate) async fn check(self, pool: &Pool, image: &ImageInfo) -> Result<bool, Failure> {
        match PartialImport::at(pool, image).await {
            Ok(None) => Ok(false),
            Ok(Some(_)) if self.allow_incomplete => Ok(true),
            Ok(Some(partial)) => {
                Err(Failure::Incomplete { image: image.name.clone(), state: partial.to_string() })
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the image called `name`.
    pub(crate) async fn check_named(self, pool: &Pool, name: &str) -> Result<bool, Failure> {
        self.check(pool, &rbd::info(pool, name).await?).await
    }
}

fn total(bytes: Option<u64>) -> String {
    bytes.map_or("a stream".to_owned(), |bytes| format!("{bytes} bytes"))
}

impl fmt::Display for PartialImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Some(all) => write!(f, "{} of {all} bytes are imported", self.done),
            None => write!(f, "{} bytes are imported", self.done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_how_far_an_import_is_and_of_which_file() {
        for (of, source) in [(Some(9), Some("file:1:2:3.4:5.6")), (Some(9), None), (None, None)] {
            let mark = PartialImport { done: 7, of, source: source.map(str::to_owned) };
            assert_eq!(PartialImport::parse(&mark.text()), mark);
        }
        // As earlier versions wrote it.
        let earlier = PartialImport::parse("7 of 9 bytes are imported");
        assert_eq!(earlier, PartialImport { done: 7, of: Some(9), source: None });
    }
}
