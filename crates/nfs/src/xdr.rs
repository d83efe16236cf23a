//! External data representation (RFC 4506): big-endian words of four bytes.

use onego_buf::List;
use onego_wire::{DecodeError, Decoded};

/// Size of a unit in bytes; every encoded value is a multiple of it.
pub const UNIT: usize = 4;

/// Status of successful results (`NFS3_OK`, `MNT3_OK`).
pub(crate) const OK: u32 = 0;

/// Returns the number of bytes that pad `len` bytes to whole units (RFC 4506, section 4.9).
pub const fn padding(len: usize) -> usize {
    len.wrapping_neg() % UNIT
}

/// Reads values from a slice, front to back. The parameter `what` names a value in errors.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(onego_wire::Reader<'a>);

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(onego_wire::Reader::new(bytes))
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> usize {
        self.0.left()
    }

    /// Reads an unsigned integer.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Decoded<u32> {
        Ok(u32::from_be_bytes(self.0.array(what)?))
    }

    /// Reads an unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Decoded<u64> {
        Ok(u64::from_be_bytes(self.0.array(what)?))
    }

    /// Reads a boolean; rejects values other than 0 and 1.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Decoded<bool> {
        match self.u32(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Invalid { what, value: other.into() }),
        }
    }

    /// Reads opaque data of a fixed length.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Decoded<[u8; N]> {
        let bytes = self.0.array(what)?;
        self.0.take(padding(N), what)?;
        Ok(bytes)
    }

    /// Reads opaque data of a variable length of at most `bound` bytes.
    #[inline]
    pub fn opaque(&mut self, bound: usize, what: &'static str) -> Decoded<&'a [u8]> {
        let len = self.len(bound, what)?;
        let bytes = self.0.take(len, what)?;
        self.0.take(padding(len), what)?;
        Ok(bytes)
    }

    /// Reads a length of at most `bound`.
    #[inline]
    pub fn len(&mut self, bound: usize, what: &'static str) -> Decoded<usize> {
        let len = self.u32(what)? as usize;
        if len > bound {
            return Err(DecodeError::OverBound { what, value: len as u64, bound: bound as u64 });
        }
        Ok(len)
    }

    /// Reads the status of results if it is success. Otherwise returns `false` and leaves the status.
    pub(crate) fn take_ok(&mut self) -> Decoded<bool> {
        let mut ahead = *self;
        let is_ok = ahead.u32("status")? == OK;
        if is_ok {
            *self = ahead;
        }
        Ok(is_ok)
    }

    /// Finishes the decoding of a complete value; fails if bytes are left.
    pub fn finish(self, what: &'static str) -> Decoded<()> {
        self.0.finish(what)
    }
}

/// Appends values to a growing buffer.
#[derive(Debug, Default, Clone)]
pub struct Writer(onego_wire::Writer);

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.0.put(&value.to_be_bytes());
    }

    /// Appends an unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.0.put(&value.to_be_bytes());
    }

    /// Appends a boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// Appends a length.
    ///
    /// # Panics
    /// If it does not fit in 32 bits.
    #[inline]
    pub fn len_of(&mut self, len: usize) {
        self.u32(u32::try_from(len).expect("lengths on the wire are 32 bits"));
    }

    /// Appends opaque data of a fixed length.
    #[inline]
    pub fn array(&mut self, bytes: &[u8]) {
        self.0.put(bytes);
        self.0.put(&[0; UNIT][..padding(bytes.len())]);
    }

    /// Appends opaque data with its length.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.len_of(bytes.len());
        self.array(bytes);
    }

    /// Appends encoded data.
    pub fn append(&mut self, encoded: &[u8]) {
        self.0.put(encoded);
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the written bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Returns the written bytes for later modification.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }

    /// Discards the written bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// A value without a payload.
pub trait Xdr: Sized {
    /// Decodes the value.
    fn decode(r: &mut Reader<'_>) -> Decoded<Self>;

    /// Appends the encoded value.
    fn encode(&self, w: &mut Writer);
}

/// The arguments or results of a procedure: a value that may end with a payload.
pub trait Body: Sized {
    /// Decodes the value. If the front ends with the length of a payload, the value takes that payload from `payload`.
    fn read(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Self>;

    /// Appends the front to `w`, and the payload to `payload`. If there is a payload, the front ends with its length.
    fn write(&self, w: &mut Writer, payload: &mut List);

    /// Decodes the value from a front and a payload; fails if data is left over.
    fn read_all(front: &[u8], mut payload: List) -> Decoded<Self> {
        let mut r = Reader::new(front);
        let value = Self::read(&mut r, &mut payload)?;
        r.finish("a message")?;
        match payload.len() {
            0 => Ok(value),
            left => Err(DecodeError::Trailing { what: "the payload of a message", left }),
        }
    }
}

impl<T: Xdr> Body for T {
    fn read(r: &mut Reader<'_>, _: &mut List) -> Decoded<Self> {
        Xdr::decode(r)
    }

    fn write(&self, w: &mut Writer, _: &mut List) {
        Xdr::encode(self, w);
    }
}

/// Reads the length at the end of a front and takes the payload, which must have that length.
pub(crate) fn decode_payload(r: &mut Reader<'_>, payload: &mut List, what: &'static str) -> Decoded<List> {
    let len = r.len(payload.len(), what)?;
    if len < payload.len() {
        return Err(DecodeError::Trailing { what, left: payload.len() - len });
    }
    Ok(std::mem::take(payload))
}

pub(crate) fn encode_payload(bytes: &List, w: &mut Writer, payload: &mut List) {
    w.len_of(bytes.len());
    payload.append(bytes.clone());
}

impl Xdr for () {
    fn decode(_: &mut Reader<'_>) -> Decoded<Self> {
        Ok(())
    }

    fn encode(&self, _: &mut Writer) {}
}

macro_rules! plain {
    ($($type:ident),*) => {$(
        impl Xdr for $type {
            #[inline]
            fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
                r.$type(stringify!($type))
            }

            #[inline]
            fn encode(&self, w: &mut Writer) {
                w.$type(*self);
            }
        }
    )*};
}
plain!(u32, u64, bool);

impl<const N: usize> Xdr for [u8; N] {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.array("opaque data")
    }

    fn encode(&self, w: &mut Writer) {
        w.array(self);
    }
}

/// Optional data: a boolean, and the value if it is true (RFC 4506, section 4.19).
impl<T: Xdr> Xdr for Option<T> {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.bool("whether there is a value")?.then(|| T::decode(r)).transpose()
    }

    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_some());
        if let Some(value) = self {
            value.encode(w);
        }
    }
}

/// Reads a list: each value follows a true boolean, and a false one ends the list (RFC 4506, section 4.19).
pub(crate) fn decode_chain<T: Xdr>(r: &mut Reader<'_>, bound: usize, what: &'static str) -> Decoded<Vec<T>> {
    // The input bounds the memory, too: a value takes at least its boolean.
    let mut values = Vec::new();
    while r.bool(what)? {
        if values.len() == bound {
            return Err(DecodeError::OverBound { what, value: bound as u64 + 1, bound: bound as u64 });
        }
        values.push(T::decode(r)?);
    }
    Ok(values)
}

pub(crate) fn encode_chain<T: Xdr>(w: &mut Writer, values: &[T]) {
    for value in values {
        w.bool(true);
        value.encode(w);
    }
    w.bool(false);
}

/// Defines structures that are encoded as the sequence of their fields.
macro_rules! xdr_struct {
    ($($(#[$doc:meta])* pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl $crate::xdr::Xdr for $name {
            fn decode(r: &mut $crate::xdr::Reader<'_>) -> onego_wire::Decoded<Self> {
                Ok(Self { $($field: <$type as $crate::xdr::Xdr>::decode(r)?,)* })
            }

            fn encode(&self, w: &mut $crate::xdr::Writer) {
                $($crate::xdr::Xdr::encode(&self.$field, w);)*
            }
        }
    )*};
}
pub(crate) use xdr_struct;

/// Defines enumerations; decoding rejects other values.
macro_rules! xdr_enum {
    ($($(#[$doc:meta])* pub enum $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name { $($(#[$value_doc])* $value = $number,)* }

        impl $crate::xdr::Xdr for $name {
            fn decode(r: &mut $crate::xdr::Reader<'_>) -> onego_wire::Decoded<Self> {
                match r.u32(stringify!($name))? {
                    $($number => Ok(Self::$value),)*
                    other => Err(onego_wire::DecodeError::Invalid { what: stringify!($name), value: other.into() }),
                }
            }

            fn encode(&self, w: &mut $crate::xdr::Writer) {
                w.u32(*self as u32);
            }
        }
    )*};
}
pub(crate) use xdr_enum;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_data_is_padded_to_whole_units() {
        let mut w = Writer::new();
        w.opaque(b"abcde");
        w.opaque(b"");
        w.array(b"xy");
        assert_eq!(w.as_slice(), b"\0\0\0\x05abcde\0\0\0\0\0\0\0xy\0\0");
        let mut r = Reader::new(w.as_slice());
        assert_eq!(r.opaque(5, "a").unwrap(), b"abcde");
        assert_eq!(r.opaque(0, "b").unwrap(), b"");
        assert_eq!(&r.array::<2>("c").unwrap(), b"xy");
        r.finish("all").unwrap();
    }

    #[test]
    fn a_length_beyond_its_bound_or_the_input_is_rejected() {
        let bytes = b"\0\0\0\x05abcde\0\0\0";
        assert!(matches!(Reader::new(bytes).opaque(4, "a"), Err(DecodeError::OverBound { bound: 4, .. })));
        assert!(matches!(Reader::new(&bytes[..11]).opaque(9, "a"), Err(DecodeError::Truncated { .. })));
        assert!(Reader::new(&[0, 0, 0, 2]).bool("b").is_err());
    }

    #[test]
    fn a_list_longer_than_its_bound_is_rejected() {
        let mut w = Writer::new();
        encode_chain(&mut w, &[1u32, 2, 3]);
        assert_eq!(decode_chain::<u32>(&mut Reader::new(w.as_slice()), 3, "n").unwrap(), [1, 2, 3]);
        assert!(decode_chain::<u32>(&mut Reader::new(w.as_slice()), 2, "n").is_err());
    }
}
