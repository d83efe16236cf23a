//! Bounded decoding from a contiguous slice, and encoding into a growing buffer.
//!
//! [`Reader`] never allocates memory for a length that it has not checked against the available bytes:
//! [`Reader::count`] and [`Reader::take`] are the only ways to read a length, and both check it.

use crate::text;
use thiserror::Error;

/// Error in bytes from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The input ends inside a value.
    #[error("{what}: needs {needed} more bytes, {left} are left")]
    Truncated {
        /// Value being decoded.
        what: &'static str,
        /// Bytes that the value needs.
        needed: usize,
        /// Bytes available.
        left: usize,
    },
    /// Length or count above its limit.
    #[error("{what}: {value} exceeds the limit of {bound}")]
    OverBound {
        /// Length or count.
        what: &'static str,
        /// Value on the wire.
        value: u64,
        /// Limit.
        bound: u64,
    },
    /// The writer requires a newer reader.
    #[error("{what}: needs a reader of version {compat}, this one knows {known}")]
    TooNew {
        /// Structure.
        what: &'static str,
        /// Oldest reader version that understands the bytes.
        compat: u8,
        /// Newest version known to this reader.
        known: u8,
    },
    /// The writer is older than any supported version.
    #[error("{what}: version {version} is older than {oldest}, the oldest supported version")]
    TooOld {
        /// Structure.
        what: &'static str,
        /// Version of the bytes.
        version: u8,
        /// Oldest supported version.
        oldest: u8,
    },
    /// Invalid value.
    #[error("{what}: invalid value {value}")]
    Invalid {
        /// Field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Bytes left over after a complete value.
    #[error("{what}: {left} bytes are left over")]
    Trailing {
        /// Structure.
        what: &'static str,
        /// Number of bytes left over.
        left: usize,
    },
    /// Checksum mismatch.
    #[error("{what}: checksum {expected:#010x} does not match the computed {actual:#010x}")]
    Checksum {
        /// Structure.
        what: &'static str,
        /// Checksum on the wire.
        expected: u32,
        /// Computed checksum.
        actual: u32,
    },
    /// A string is not UTF-8.
    #[error("{what}: not UTF-8")]
    NotUtf8 {
        /// Field.
        what: &'static str,
    },
}

/// Result of decoding.
pub type Decoded<T> = Result<T, DecodeError>;

/// Reads values from a slice, front to back.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    left: &'a [u8],
}

macro_rules! read_le {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Reads a little-endian `", stringify!($type), "`.")]
        #[inline]
        pub fn $name(&mut self, what: &'static str) -> Decoded<$type> {
            Ok(<$type>::from_le_bytes(self.array(what)?))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Returns the number of unread bytes.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// Returns the unread bytes without consuming them.
    pub fn rest(&self) -> &'a [u8] {
        self.left
    }

    /// Returns whether everything is read.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Reads `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize, what: &'static str) -> Decoded<&'a [u8]> {
        match self.left.split_at_checked(n) {
            Some((head, tail)) => {
                self.left = tail;
                Ok(head)
            }
            None => Err(DecodeError::Truncated { what, needed: n, left: self.left.len() }),
        }
    }

    /// Reads `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Decoded<[u8; N]> {
        match self.left.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.left = tail;
                Ok(*head)
            }
            None => Err(DecodeError::Truncated { what, needed: N, left: self.left.len() }),
        }
    }

    read_le!(u8: u8, u16: u16, u32: u32, u64: u64, i8: i8, i16: i16, i32: i32, i64: i64, f64: f64);

    /// Reads a boolean byte: anything but 0 is true, as peers write it.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Decoded<bool> {
        Ok(self.u8(what)? != 0)
    }

    /// Reads a 32-bit count of items, each of which takes at least `min_item` (> 0) bytes. The count is limited by the
    /// remaining input and can be used as a capacity.
    #[inline]
    pub fn count(&mut self, min_item: usize, what: &'static str) -> Decoded<usize> {
        let n = self.u32(what)? as usize;
        let bound = self.left.len() / min_item.max(1);
        if n > bound {
            return Err(DecodeError::OverBound { what, value: n as u64, bound: bound as u64 });
        }
        Ok(n)
    }

    /// Reads a 32-bit length and that many bytes.
    #[inline]
    pub fn blob(&mut self, what: &'static str) -> Decoded<&'a [u8]> {
        let n = self.u32(what)? as usize;
        self.take(n, what)
    }

    /// Reads a 32-bit length and the bytes of a name or text (see [`text`]).
    pub fn string(&mut self, what: &'static str) -> Decoded<String> {
        Ok(text::from_bytes(self.blob(what)?).into_owned())
    }

    /// Returns a reader limited to the next `n` bytes, and consumes them.
    #[inline]
    pub fn sub(&mut self, n: usize, what: &'static str) -> Decoded<Reader<'a>> {
        Ok(Reader::new(self.take(n, what)?))
    }

    /// Ends the decoding of a complete value.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes are left.
    pub fn finish(self, what: &'static str) -> Decoded<()> {
        if self.left.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { what, left: self.left.len() }) }
    }
}

/// Appends values to a growing buffer.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

macro_rules! write_le {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Appends a little-endian `", stringify!($type), "`.")]
        #[inline]
        pub fn $name(&mut self, value: $type) {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    )*};
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty writer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    write_le!(u8: u8, u16: u16, u32: u32, u64: u64, i8: i8, i16: i16, i32: i32, i64: i64, f64: f64);

    /// Appends a boolean as one byte, 0 or 1.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends raw bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a 32-bit count of items.
    ///
    /// # Panics
    /// If `n` does not fit 32 bits, which no encoded structure approaches.
    #[inline]
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("counts on the wire are 32 bits"));
    }

    /// Appends a 32-bit length and the bytes.
    #[inline]
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    /// Appends a 32-bit length and the bytes that the string stands for (see [`text`]).
    #[inline]
    pub fn string(&mut self, value: &str) {
        self.blob(&text::to_bytes(value));
    }

    /// Appends a 32-bit length and the output of `body`, filling in the length afterwards.
    pub fn sized<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let at = self.bytes.len();
        self.u32(0);
        let result = body(self);
        let len = u32::try_from(self.bytes.len() - at - 4).expect("lengths on the wire are 32 bits");
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        result
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes written.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes written, for filling in values known late.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Removes all bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the bytes written.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}
