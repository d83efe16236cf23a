//! Encryption of an image's data.
//!
//! Source: ceph `src/librbd/crypto/BlockCrypto.cc`, `doc/rbd/rbd-encryption.rst`.

use onego_buf::{List, Segment};
use onego_ceph::rbd::Layout;
use onego_luks::Sectors;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Encryption of an image's data: the image starts with a header, and the data after it consists of sectors.
#[derive(Debug)]
pub struct Encryption {
    data_offset: u64,
    sector: u64,
    /// Never contended: only one machine uses it, from one thread.
    sectors: Mutex<Sectors>,
}

/// Encryption header that does not fit its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    /// A sector would span objects, or header and data would share an object.
    #[error("its header of {data_offset} bytes does not fit the image's objects")]
    Layout {
        /// First byte of the data.
        data_offset: u64,
    },
    /// The image ends before the data begins.
    #[error("its header of {data_offset} bytes exceeds the image size {size}: make the image larger")]
    Size {
        /// First byte of the data.
        data_offset: u64,
        /// Bytes of the image.
        size: u64,
    },
}

impl Encryption {
    /// Creates the encryption of data that starts at byte `data_offset` of an image of `size` bytes.
    pub fn new(data_offset: u64, sectors: Sectors, layout: &Layout, size: u64) -> Result<Self, Misfit> {
        let sector = sectors.size() as u64;
        let is_whole = data_offset.is_multiple_of(stripe_period(layout));
        if !is_whole || !layout.stripe_unit().is_multiple_of(sector) {
            return Err(Misfit::Layout { data_offset });
        }
        if data_offset > size {
            return Err(Misfit::Size { data_offset, size });
        }
        Ok(Self { data_offset, sector, sectors: Mutex::new(sectors) })
    }

    /// Returns the offset of the data within the image.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Extends a range to whole sectors. Its offsets count from a sector's first byte.
    pub(crate) fn aligned(&self, range: Range<u64>) -> Range<u64> {
        range.start - range.start % self.sector..range.end.next_multiple_of(self.sector)
    }

    pub(crate) fn encrypt(&self, at: u64, plain: &List) -> Segment {
        let mut bytes = plain.to_vec();
        self.sectors().encrypt(at - self.data_offset, &mut bytes);
        bytes.into()
    }

    /// Decrypts bytes that start at byte `at` of the image, the first of a sector.
    pub(crate) fn decrypt(&self, at: u64, sealed: &List) -> List {
        let mut bytes = sealed.to_vec();
        // An object's trailing zeros may have been cut off, even within a sector.
        bytes.resize(bytes.len().next_multiple_of(self.sector as usize), 0);
        self.decrypt_in_place(at, &mut bytes, sealed.len());
        bytes.into()
    }

    /// Decrypts the first `filled` bytes of a buffer of whole sectors, padding a partial last sector with zeros. Returns the
    /// number of bytes that are decrypted then.
    pub(crate) fn decrypt_in_place(&self, at: u64, buffer: &mut [u8], filled: usize) -> usize {
        let end = filled.next_multiple_of(self.sector as usize).min(buffer.len());
        buffer[filled..end].fill(0);
        let whole = end - end % self.sector as usize;
        self.sectors().decrypt(at - self.data_offset, &mut buffer[..whole]);
        end
    }

    fn sectors(&self) -> MutexGuard<'_, Sectors> {
        self.sectors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of bytes after which the image's bytes go to new objects.
pub fn stripe_period(layout: &Layout) -> u64 {
    layout.object_size() * layout.stripe_count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_luks::{Costs, Format, KeySize, Version};

    fn encryption() -> Encryption {
        let layout = Layout::plain(16).unwrap();
        let costs = Costs { iterations: 1000, memory: 64, passes: 1 };
        let format = Format {
            version: Version::One,
            key_size: KeySize::Aes256,
            alignment: stripe_period(&layout),
            costs,
        };
        let mut random = |bytes: &mut [u8]| {
            bytes.iter_mut().zip((1..=u8::MAX).cycle()).for_each(|(byte, number)| *byte = number);
        };
        let made = format.make(b"open sesame", &mut random).unwrap();
        let sectors = made.header.sectors(&made.key).unwrap();
        Encryption::new(format.data_offset(), sectors, &layout, 4 << 20).unwrap()
    }

    #[test]
    fn an_object_without_its_trailing_zeros_is_decrypted() {
        let encryption = encryption();
        let at = encryption.data_offset();
        let ends_with_zero = |number: u16| {
            let plain = List::from(number.to_be_bytes().repeat(512));
            let sealed = encryption.encrypt(at, &plain);
            (sealed.last() == Some(&0)).then(|| (plain, sealed.to_vec()))
        };
        let (plain, mut sealed) = (1..10_000).find_map(ends_with_zero).unwrap();
        while sealed.last() == Some(&0) {
            sealed.pop();
        }
        assert!(encryption.decrypt(at, &sealed.into()).to_vec() == plain.to_vec());
    }
}
