//! The sectors of the data.

use crate::error::Error;
use crate::key::VolumeKey;
use onego_cipher::xts::Xts;

/// Tweaks count in these bytes, whatever size the sectors have.
const TWEAK_UNIT: u64 = 512;

/// Encrypts and decrypts the sectors of a disk (`aes-xts-plain64`).
#[derive(Debug)]
pub struct Sectors {
    xts: Xts,
    size: usize,
    first_tweak: u64,
}

impl Sectors {
    pub(crate) fn new(key: &VolumeKey, size: u32, first_tweak: u64) -> Result<Self, Error> {
        Ok(Self { xts: Xts::new(key.as_bytes())?, size: size as usize, first_tweak })
    }

    /// Bytes of a sector: 512 to 4096, a power of two.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Encrypts whole sectors where they lie. `offset` is where they begin, in bytes of the data.
    ///
    /// # Panics
    /// If they are not whole.
    pub fn encrypt(&mut self, offset: u64, bytes: &mut [u8]) {
        let Self { xts, size, first_tweak } = self;
        for (number, sector) in numbered(*first_tweak, *size, offset, bytes) {
            xts.encrypt(number, sector);
        }
    }

    /// Decrypts whole sectors where they lie. `offset` is where they begin, in bytes of the data.
    ///
    /// Zeros stay zeros: they are where nothing was ever written. No sector that was encrypted consists of zeros, but with a
    /// chance of one in 2^4096.
    ///
    /// # Panics
    /// If they are not whole.
    pub fn decrypt(&mut self, offset: u64, bytes: &mut [u8]) {
        let Self { xts, size, first_tweak } = self;
        for (number, sector) in numbered(*first_tweak, *size, offset, bytes) {
            if sector.iter().any(|byte| *byte != 0) {
                xts.decrypt(number, sector);
            }
        }
    }
}

/// The sectors, with their tweaks.
fn numbered(
    first: u64,
    size: usize,
    offset: u64,
    bytes: &mut [u8],
) -> impl Iterator<Item = (u64, &mut [u8])> {
    assert!(offset.is_multiple_of(size as u64) && bytes.len().is_multiple_of(size), "the sectors are whole");
    let tweaks = size as u64 / TWEAK_UNIT;
    let first = first.wrapping_add(offset / TWEAK_UNIT);
    bytes
        .chunks_exact_mut(size)
        .zip(0..)
        .map(move |(sector, index)| (first.wrapping_add(index * tweaks), sector))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sectors(size: u32, first_tweak: u64) -> Sectors {
        Sectors::new(&VolumeKey::new((0..64).collect()), size, first_tweak).unwrap()
    }

    #[test]
    fn large_sectors_are_numbered_by_small_ones() {
        let mut bytes = vec![7; 8192];
        sectors(4096, 0).encrypt(4096, &mut bytes);
        let mut second = vec![7; 4096];
        Xts::new(&(0..64).collect::<Vec<u8>>()).unwrap().encrypt(16, &mut second);
        assert_eq!(bytes[4096..], second);
        sectors(4096, 0).decrypt(4096, &mut bytes);
        assert_eq!(bytes, [7; 8192]);
    }

    #[test]
    fn numbers_begin_where_the_header_says() {
        let (mut one, mut other) = (vec![7; 512], vec![7; 512]);
        sectors(512, 5).encrypt(0, &mut one);
        sectors(512, 0).encrypt(5 * 512, &mut other);
        assert_eq!(one, other);
    }

    #[test]
    fn what_was_never_written_is_zeros() {
        let mut bytes = vec![0; 1024];
        sectors(512, 0).encrypt(0, &mut bytes[..512]);
        assert_ne!(bytes[..512], [0; 512]);
        sectors(512, 0).decrypt(0, &mut bytes);
        assert_eq!(bytes, [0; 1024]);
    }
}
