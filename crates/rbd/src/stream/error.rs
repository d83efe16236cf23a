use thiserror::Error;

/// Error in an encoded diff or image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream has another banner.
    #[error("it starts with {found:?} instead of {expected:?}: this is another kind of file")]
    Banner {
        /// Banner of this kind of stream.
        expected: &'static str,
        /// First bytes of the stream.
        found: String,
    },
    /// A record of an unknown kind in version 1, where records do not have a length.
    #[error("byte {position}: unknown record tag {tag:#04x}")]
    Tag {
        /// Offset of the record.
        position: u64,
        /// Its first byte.
        tag: u8,
    },
    /// The length of a record is impossible for its kind.
    #[error("byte {position}: record {tag:?} has an invalid length of {length} bytes")]
    Length {
        /// Offset of the record.
        position: u64,
        /// Its kind.
        tag: char,
        /// Length from the record, in bytes.
        length: u64,
    },
    /// A header record follows a data record.
    #[error("byte {position}: header record {tag:?} after the first data record")]
    Late {
        /// Offset of the record.
        position: u64,
        /// Its kind.
        tag: char,
    },
    /// A record that may occur once is repeated.
    #[error("byte {position}: repeated record {tag:?}")]
    Repeated {
        /// Offset of the record.
        position: u64,
        /// Its kind.
        tag: char,
    },
    /// Offset plus length of a range exceed 64 bits.
    #[error("byte {position}: offset {offset} + length {length} exceeds 64 bits")]
    Range {
        /// Offset of the record.
        position: u64,
        /// First byte of the range.
        offset: u64,
        /// Its bytes.
        length: u64,
    },
    /// The stream is truncated.
    #[error("it ends at byte {position}, within a record: it is truncated")]
    Truncated {
        /// Length of the stream in bytes.
        position: u64,
    },
}

/// Error of a merge of two diffs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The first diff is invalid.
    #[error("the first diff: {0}")]
    First(#[source] StreamError),
    /// The second diff is invalid.
    #[error("the second diff: {0}")]
    Second(#[source] StreamError),
    /// The second diff does not start where the first ends.
    #[error("the first diff ends at {}, and the second begins at {}", name(.first.as_ref()), name(.second.as_ref()))]
    NotAdjacent {
        /// Snapshot at the end of the first diff; none: the current image.
        first: Option<String>,
        /// Snapshot at the start of the second diff; none: nothing.
        second: Option<String>,
    },
    /// A diff lacks the record of the image size.
    #[error("one of the diffs lacks the image size")]
    NoSize,
    /// The records of a diff are not in the order of the image's bytes, overlap, or exceed the image size.
    #[error(
        "in one of the diffs, {length} bytes at offset {offset} are out of order or exceed the image size"
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
