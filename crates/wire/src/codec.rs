//! Bounded decoding from a contiguous slice, and encoding into a growing buffer.
//!
//! [`Reader`] never takes memory on the word of a length that it has not checked against the bytes that are
//! really there: [`Reader::count`] and [`Reader::take`] are the only ways to learn of a length, and both check it.

use crate::text;
use thiserror::Error;

/// Why bytes from the wire could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The input ended inside a value.
    #[error("{what}: needs {needed} more bytes, {left} are left")]
    Truncated {
        /// The value that was being decoded.
        what: &'static str,
        /// Bytes that the value needs.
        needed: usize,
        /// Bytes that were left.
        left: usize,
    },
    /// A length or count is over its bound.
    #[error("{what}: {value} is over the bound of {bound}")]
    OverBound {
        /// The length or count.
        what: &'static str,
        /// What the wire said.
        value: u64,
        /// The bound.
        bound: u64,
    },
    /// The writer needs a newer reader than this one.
    #[error("{what}: needs a reader of version {compat}, this one knows {known}")]
    TooNew {
        /// The structure.
        what: &'static str,
        /// The oldest version of readers that understand the bytes.
        compat: u8,
        /// The newest version this reader knows.
        known: u8,
    },
    /// The writer is older than anything that is supported.
    #[error("{what}: version {version} is older than {oldest}, the oldest that is supported")]
    TooOld {
        /// The structure.
        what: &'static str,
        /// Version of the bytes.
        version: u8,
        /// The oldest version that is supported.
        oldest: u8,
    },
    /// A value that has no meaning.
    #[error("{what}: {value} has no meaning here")]
    Invalid {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Bytes were left over after the whole value.
    #[error("{what}: {left} bytes are left over")]
    Trailing {
        /// The structure.
        what: &'static str,
        /// How many bytes were left.
        left: usize,
    },
    /// A checksum does not fit the bytes it is to protect.
    #[error("{what}: the checksum is {expected:#010x}, that of the bytes is {actual:#010x}")]
    Checksum {
        /// The structure.
        what: &'static str,
        /// What came with the bytes.
        expected: u32,
        /// What was computed from them.
        actual: u32,
    },
    /// A string is not UTF-8.
    #[error("{what}: not UTF-8")]
    NotUtf8 {
        /// The field.
        what: &'static str,
    },
}

/// What decoding returns.
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
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// The bytes that are left, without moving.
    pub fn rest(&self) -> &'a [u8] {
        self.left
    }

    /// Is everything read?
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next `n` bytes.
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

    /// The next `N` bytes as an array.
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

    /// Reads a byte that must be 0 or 1 in meaning: anything but 0 is true, as peers write it.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Decoded<bool> {
        Ok(self.u8(what)? != 0)
    }

    /// Reads a 32-bit count of items of which each takes at least `min_item` (> 0) bytes here, so that the count
    /// is bounded by the input and may be used as a capacity.
    #[inline]
    pub fn count(&mut self, min_item: usize, what: &'static str) -> Decoded<usize> {
        let n = self.u32(what)? as usize;
        let bound = self.left.len() / min_item.max(1);
        if n > bound {
            return Err(DecodeError::OverBound { what, value: n as u64, bound: bound as u64 });
        }
        Ok(n)
    }

    /// Reads a 32-bit length and as many bytes.
    #[inline]
    pub fn blob(&mut self, what: &'static str) -> Decoded<&'a [u8]> {
        let n = self.u32(what)? as usize;
        self.take(n, what)
    }

    /// Reads a 32-bit length and the bytes of a name or text (see [`text`]).
    pub fn string(&mut self, what: &'static str) -> Decoded<String> {
        Ok(text::from_bytes(self.blob(what)?).into_owned())
    }

    /// A reader over the next `n` bytes alone; this one moves past them.
    #[inline]
    pub fn sub(&mut self, n: usize, what: &'static str) -> Decoded<Reader<'a>> {
        Ok(Reader::new(self.take(n, what)?))
    }

    /// Ends the decoding of a whole value: an error if bytes are left.
    pub fn finish(self, what: &'static str) -> Decoded<()> {
        if self.left.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { what, left: self.left.len() }) }
    }
}

/// Appends values to a buffer that grows.
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
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    write_le!(u8: u8, u16: u16, u32: u32, u64: u64, i8: i8, i16: i16, i32: i32, i64: i64, f64: f64);

    /// Appends 0 or 1 in one byte.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a count of items as 32 bits.
    ///
    /// # Panics
    /// If `n` does not fit 32 bits: nothing that is encoded here comes near.
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

    /// Appends a 32-bit length that is filled in when `body` has written what it covers.
    pub fn sized<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let at = self.bytes.len();
        self.u32(0);
        let result = body(self);
        let len = u32::try_from(self.bytes.len() - at - 4).expect("lengths on the wire are 32 bits");
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        result
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Is nothing written yet?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// What is written so far, to fill in what is known late.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Forgets what was written and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}
