//! How the data of an image is encrypted.
//!
//! Source: ceph `src/librbd/crypto/BlockCrypto.cc`, `doc/rbd/rbd-encryption.rst`.

use onego_buf::{List, Segment};
use onego_ceph::rbd::Layout;
use onego_luks::Sectors;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// The encryption of an image's data: the image begins with a header, and the data behind it consists of sectors.
#[derive(Debug)]
pub struct Encryption {
    data_offset: u64,
    sector: u64,
    /// One machine alone uses it, in one thread: it is never waited for.
    sectors: Mutex<Sectors>,
}

/// A header that does not fit the image that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    /// Objects would have parts of sectors, or headers beside data.
    #[error("its header has {data_offset} bytes, and the objects of the image cannot be divided that way")]
    Layout {
        /// First byte of the data.
        data_offset: u64,
    },
    /// The image ends before the data begins.
    #[error("its header has {data_offset} bytes, and the image {size}: make it larger")]
    Size {
        /// First byte of the data.
        data_offset: u64,
        /// Bytes of the image.
        size: u64,
    },
}

impl Encryption {
    /// Data that begins at byte `data_offset` of an image of `size` bytes, in objects like these.
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

    /// First byte of the data within the image.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// The whole sectors in which a range lies; it counts from a place where one begins.
    pub(crate) fn aligned(&self, range: Range<u64>) -> Range<u64> {
        range.start - range.start % self.sector..range.end.next_multiple_of(self.sector)
    }

    /// Encrypts whole sectors from byte `at` of the image on.
    pub(crate) fn encrypt(&self, at: u64, plain: &List) -> Segment {
        let mut bytes = plain.to_vec();
        self.sectors().encrypt(at - self.data_offset, &mut bytes);
        bytes.into()
    }

    /// Decrypts what begins at byte `at` of the image, which is a sector's first.
    pub(crate) fn decrypt(&self, at: u64, sealed: &List) -> List {
        let mut bytes = sealed.to_vec();
        // The zeros with which an object ends may have been cut off, also within a sector.
        bytes.resize(bytes.len().next_multiple_of(self.sector as usize), 0);
        self.decrypt_in_place(at, &mut bytes, sealed.len());
        bytes.into()
    }

    /// Decrypts the first `filled` bytes of a buffer of whole sectors. Gives how many bytes of it are decrypted then: an object that
    /// ends within a sector has zeros behind.
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

/// Bytes after which the image's bytes lie in new objects.
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
    fn an_object_whose_last_zeros_were_cut_off_is_decrypted() {
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
