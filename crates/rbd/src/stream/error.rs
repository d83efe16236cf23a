use thiserror::Error;

/// Why bytes are no stream, or none that can be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream begins with something else.
    #[error("it begins with {found:?} instead of {expected:?}: it is of another kind")]
    Banner {
        /// What streams of this kind begin with.
        expected: &'static str,
        /// What it begins with.
        found: String,
    },
    /// A record is of a kind that is not known, and does not say where it ends.
    #[error("byte {position}: no record begins with {tag:#04x}")]
    Tag {
        /// Where it begins.
        position: u64,
        /// Its first byte.
        tag: u8,
    },
    /// A record is longer, or shorter, than its kind can be.
    #[error("byte {position}: a record {tag:?} of {length} bytes")]
    Length {
        /// Where it begins.
        position: u64,
        /// Its kind.
        tag: char,
        /// Its bytes, as it says.
        length: u64,
    },
    /// A record of the first part is in the second.
    #[error("byte {position}: a record {tag:?} behind the first data")]
    Late {
        /// Where it begins.
        position: u64,
        /// Its kind.
        tag: char,
    },
    /// A record that there is one of comes again.
    #[error("byte {position}: another record {tag:?}")]
    Repeated {
        /// Where it begins.
        position: u64,
        /// Its kind.
        tag: char,
    },
    /// A range ends behind the last byte that there can be.
    #[error("byte {position}: {length} bytes at {offset}, which no image has")]
    Range {
        /// Where the record begins.
        position: u64,
        /// First byte of the range.
        offset: u64,
        /// Its bytes.
        length: u64,
    },
    /// The stream ends early.
    #[error("it ends at byte {position}, within a record: it is not whole")]
    Truncated {
        /// Its bytes.
        position: u64,
    },
}

/// Why two diffs do not make one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The first diff is no diff.
    #[error("the first diff: {0}")]
    First(#[source] StreamError),
    /// The second diff is no diff.
    #[error("the second diff: {0}")]
    Second(#[source] StreamError),
    /// The second diff does not begin where the first ends.
    #[error("the first diff ends at {}, and the second begins at {}", name(.first.as_ref()), name(.second.as_ref()))]
    NotAdjacent {
        /// Snapshot that the first diff ends at; none: the image as it was.
        first: Option<String>,
        /// Snapshot that the second diff begins at; none: nothing.
        second: Option<String>,
    },
    /// A diff does not say how large the image is.
    #[error("one of the diffs does not say how many bytes the image has")]
    NoSize,
    /// The records of a diff are not in the order of the image's bytes, overlap, or lie behind the image's end.
    #[error(
        "{length} bytes at {offset} in one of the diffs are out of order, or behind the end of the image"
    )]
    Order {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

fn name(snapshot: Option<&String>) -> String {
    snapshot.map_or("no snapshot".to_owned(), |name| format!("snapshot {name}"))
}
