//! Ceph's encoding conventions: traits for wire types, and the versioned envelope.
//!
//! Source: ceph `doc/dev/encoding.rst`, `doc/dev/network-encoding.rst`. All integers are little-endian; strings,
//! lists, sets and maps carry a 32-bit length or count.

use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// A type that can be decoded from bytes.
pub trait Decode: Sized {
    /// Reads a value and moves `r` past it.
    fn decode(r: &mut Reader<'_>) -> Decoded<Self>;

    /// Reads a value from `bytes`.
    ///
    /// # Errors
    /// Fails if bytes are left over.
    fn from_bytes(bytes: &[u8]) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let value = Self::decode(&mut r)?;
        r.finish(std::any::type_name::<Self>())?;
        Ok(value)
    }
}

/// A type that can be encoded to bytes.
pub trait Encode {
    /// Appends the value to `w`.
    fn encode(&self, w: &mut Writer);

    /// Returns the encoded value.
    fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.encode(&mut w);
        w.into_vec()
    }
}

/// Reads a versioned envelope (`struct_v`, `struct_compat`, length). `body` gets the version and a reader limited to
/// the envelope; trailing data from newer writers is skipped.
#[inline]
pub fn envelope<'a, T>(
    r: &mut Reader<'a>,
    known: u8,
    what: &'static str,
    body: impl FnOnce(u8, &mut Reader<'a>) -> Decoded<T>,
) -> Decoded<T> {
    let version = r.u8(what)?;
    let compat = r.u8(what)?;
    let len = r.u32(what)? as usize;
    if compat > known {
        return Err(DecodeError::TooNew { what, compat, known });
    }
    let mut inner = r.sub(len, what)?;
    body(version, &mut inner)
}

/// Writes a versioned envelope around the output of `body`.
pub fn write_envelope<R>(w: &mut Writer, version: u8, compat: u8, body: impl FnOnce(&mut Writer) -> R) -> R {
    w.u8(version);
    w.u8(compat);
    w.sized(body)
}

macro_rules! plain {
    ($($type:ident),*) => {$(
        impl Decode for $type {
            #[inline]
            fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
                r.$type(stringify!($type))
            }
        }
        impl Encode for $type {
            #[inline]
            fn encode(&self, w: &mut Writer) {
                w.$type(*self);
            }
        }
    )*};
}
plain!(u8, u16, u32, u64, i8, i16, i32, i64, bool);

impl Decode for String {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.string("string")
    }
}

impl Encode for String {
    fn encode(&self, w: &mut Writer) {
        w.string(self);
    }
}

impl Encode for str {
    fn encode(&self, w: &mut Writer) {
        w.string(self);
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        // Every list item in this format takes at least a byte.
        let n = r.count(1, "list")?;
        // An item in memory may be much larger than its wire byte: the list grows as items actually arrive.
        let mut list = Vec::with_capacity(n.min(1024));
        for _ in 0..n {
            list.push(T::decode(r)?);
        }
        Ok(list)
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for item in self {
            item.encode(w);
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer) {
        self.as_slice().encode(w);
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let n = r.count(1, "map")?;
        let mut map = BTreeMap::new();
        for _ in 0..n {
            let key = K::decode(r)?;
            map.insert(key, V::decode(r)?);
        }
        Ok(map)
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (key, value) in self {
            key.encode(w);
            value.encode(w);
        }
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let n = r.count(1, "set")?;
        (0..n).map(|_| T::decode(r)).collect()
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for item in self {
            item.encode(w);
        }
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok((A::decode(r)?, B::decode(r)?))
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, w: &mut Writer) {
        self.0.encode(w);
        self.1.encode(w);
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Writer) {}
}

impl Decode for () {
    fn decode(_: &mut Reader<'_>) -> Decoded<Self> {
        Ok(())
    }
}

/// An optional value, as `std::optional` is encoded.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_some());
        if let Some(value) = self {
            value.encode(w);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.bool("presence of a value")?.then(|| T::decode(r)).transpose()
    }
}

/// Checks that a value round-trips and that every truncation is an error. For tests of codecs.
///
/// # Panics
/// If it does not round-trip.
pub fn survives<T: Decode + Encode + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
    for len in 0..bytes.len() {
        assert!(T::from_bytes(&bytes[..len]).is_err(), "{value:?} cut to {len} bytes");
    }
}
