//! The object map (`rbd_object_map.ID`): two bits for each data object of an image.
//!
//! Sources: ceph `src/common/bit_vector.hpp`, `src/include/rbd/object_map_types.h`.

use crate::cls::methods;
use onego_buf::crc32c;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// Maximum number of objects of a map (`cls::rbd::MAX_OBJECT_MAP_OBJECT_COUNT`).
pub const MAX_OBJECTS: u64 = 256_000_000;

/// Number of bytes under one checksum.
const BLOCK: usize = 4096;

/// Number of objects per byte.
const PER_BYTE: u64 = 4;

/// States of an object.
pub mod state {
    /// The object does not exist.
    pub const NONEXISTENT: u8 = 0;
    /// The object exists.
    pub const EXISTS: u8 = 1;
    /// The object is being removed.
    pub const PENDING: u8 = 2;
    /// The object exists and was not written since the last snapshot.
    pub const EXISTS_CLEAN: u8 = 3;
}

/// States of all objects of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectMap {
    len: u64,
    /// Four states per byte, the first in the high bits. Unused bits are zero.
    packed: Vec<u8>,
}

impl ObjectMap {
    /// Creates a map of `len` objects that do not exist.
    ///
    /// # Panics
    /// If there are more than [`MAX_OBJECTS`].
    pub fn new(len: u64) -> Self {
        let mut map = Self::default();
        map.resize(len, state::NONEXISTENT);
        map
    }

    /// Returns the number of objects.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the image has no objects.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&self, object: u64) -> (usize, u8) {
        assert!(object < self.len, "object {object} of a map of {}", self.len);
        ((object / PER_BYTE) as usize, 6 - 2 * (object % PER_BYTE) as u8)
    }

    /// Returns the state of an object.
    ///
    /// # Panics
    /// If the object is past the end of the map.
    pub fn get(&self, object: u64) -> u8 {
        let (byte, shift) = self.place(object);
        self.packed[byte] >> shift & 3
    }

    /// Changes the state of an object.
    ///
    /// # Panics
    /// If the object is past the end of the map.
    pub fn set(&mut self, object: u64, state: u8) {
        let (byte, shift) = self.place(object);
        self.packed[byte] = self.packed[byte] & !(3 << shift) | (state & 3) << shift;
    }

    /// Changes the number of objects; new ones have `state`.
    ///
    /// # Panics
    /// If there are more than [`MAX_OBJECTS`].
    pub fn resize(&mut self, len: u64, state: u8) {
        assert!(len <= MAX_OBJECTS, "an object map of {len} objects");
        let old = self.len;
        self.len = len;
        self.packed.resize(len.div_ceil(PER_BYTE) as usize, 0);
        (len..(len.next_multiple_of(PER_BYTE)).min(old)).for_each(|object| {
            let shift = 6 - 2 * (object % PER_BYTE) as u8;
            self.packed[(object / PER_BYTE) as usize] &= !(3 << shift);
        });
        (old..len).for_each(|object| self.set(object, state));
    }

    /// Returns the states of all objects in order.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        (0..self.len).map(|object| self.get(object))
    }

    /// Encodes the map with checksums, for storage, or without, for the wire.
    pub fn encode_with(&self, w: &mut Writer, checksums: bool) {
        let mut header = Writer::new();
        write_envelope(&mut header, 1, 1, |w| w.u64(self.len));
        w.blob(header.as_slice());
        w.put(&self.packed);
        w.sized(|w| {
            if checksums {
                w.u32(crc32c(0, header.as_slice()));
                let blocks = self.packed.chunks(BLOCK);
                w.count(blocks.len());
                blocks.for_each(|block| w.u32(crc32c(0, block)));
            }
        });
    }
}

impl Encode for ObjectMap {
    /// Encodes the stored form.
    fn encode(&self, w: &mut Writer) {
        self.encode_with(w, true);
    }
}

impl Decode for ObjectMap {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let header = r.blob("object map header")?;
        let len = envelope(&mut Reader::new(header), 1, "object map header", |_, r| r.u64("objects"))?;
        if len > MAX_OBJECTS {
            return Err(DecodeError::OverBound { what: "objects", value: len, bound: MAX_OBJECTS });
        }
        let packed = r.take(len.div_ceil(PER_BYTE) as usize, "object map")?.to_vec();
        let footer = &mut Reader::new(r.blob("object map footer")?);
        if !footer.is_empty() {
            check(footer, header)?;
            footer.count(4, "object map checksums")?;
            packed.chunks(BLOCK).try_for_each(|block| check(footer, block))?;
        }
        Ok(Self { len, packed })
    }
}

fn check(footer: &mut Reader<'_>, bytes: &[u8]) -> Decoded<()> {
    let crc = footer.u32("object map checksum")?;
    if crc == crc32c(0, bytes) {
        Ok(())
    } else {
        Err(DecodeError::Invalid { what: "object map checksum", value: crc.into() })
    }
}

methods! { "rbd":
    /// Returns the map.
    "object_map_load" ObjectMapLoad {} -> ObjectMap;
    /// Replaces the map.
    "object_map_save" ObjectMapSave {
        /// New map.
        map: ObjectMap,
    } -> ();
    /// Changes the number of objects. ESTALE: an object past the new end exists.
    "object_map_resize" ObjectMapResize {
        /// New number of objects.
        objects: u64,
        /// State of new objects.
        state: u8,
    } -> ();
    /// Changes the states of objects. ERANGE: the range exceeds the map.
    "object_map_update" ObjectMapUpdate {
        /// First object.
        start: u64,
        /// End of the range, exclusive.
        end: u64,
        /// New state.
        state: u8,
        /// If set, only objects in this state are changed.
        current: Option<u8>,
    } -> ();
    /// Updates the map for a new snapshot: existing objects become clean.
    "object_map_snap_add" ObjectMapSnapAdd {} -> ();
    /// Updates the map for a removed snapshot: clean objects that it wrote are no longer clean.
    "object_map_snap_remove" ObjectMapSnapRemove {
        /// Map of the snapshot.
        map: ObjectMap,
    } -> ();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_packed_from_the_high_bits_down() {
        let mut map = ObjectMap::new(5);
        map.set(0, state::EXISTS);
        map.set(3, state::EXISTS_CLEAN);
        map.set(4, state::PENDING);
        assert_eq!(map.packed, [0b01_00_00_11, 0b10_00_00_00]);
        assert_eq!(map.iter().collect::<Vec<_>>(), [1, 0, 0, 3, 2]);
    }

    #[test]
    fn a_shrink_clears_the_states_of_removed_objects() {
        let mut map = ObjectMap::new(0);
        map.resize(7, state::EXISTS);
        map.resize(2, 0);
        map.resize(7, state::PENDING);
        assert_eq!(map.iter().collect::<Vec<_>>(), [1, 1, 2, 2, 2, 2, 2]);
        assert_eq!(ObjectMap::new(3), {
            map.resize(0, 0);
            map.resize(3, 0);
            map
        });
    }

    #[test]
    fn a_map_survives_a_round_trip_with_and_without_checksums() {
        let mut map = ObjectMap::new(40_000);
        (0..40_000).step_by(7).for_each(|object| map.set(object, state::EXISTS));
        for checksums in [true, false] {
            let mut w = Writer::new();
            map.encode_with(&mut w, checksums);
            assert_eq!(ObjectMap::from_bytes(w.as_slice()).unwrap(), map);
            w.as_mut_slice()[5000] ^= 1;
            assert_eq!(ObjectMap::from_bytes(w.as_slice()).is_err(), checksums);
        }
    }

    #[test]
    fn a_huge_map_is_rejected() {
        let mut w = Writer::new();
        ObjectMap::new(4).encode(&mut w);
        w.as_mut_slice()[10..18].copy_from_slice(&(MAX_OBJECTS + 1).to_le_bytes());
        assert!(matches!(ObjectMap::from_bytes(w.as_slice()), Err(DecodeError::OverBound { .. })));
    }
}
