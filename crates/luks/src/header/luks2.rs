//! The two headers of LUKS2: 4096 bytes each, numbers big endian, and JSON behind it. The second is there in case that the first
//! is damaged.

use super::facts::{LuksHeader, hash};
use super::luks1::text;
use super::magic::LUKS2_SMALLEST;
use super::{json, magic};
use crate::error::Error;
use onego_cipher::hash::{Hash, MAX_DIGEST};

/// Bytes before the JSON.
pub(crate) const BINARY: usize = 4096;
/// The most.
const LARGEST: u64 = 4 << 20;
/// Where the checksum is.
const CHECKSUM: std::ops::Range<usize> = 448..512;

pub(super) fn parse(bytes: &[u8]) -> Result<LuksHeader, Error> {
    let first = one(bytes, 0);
    match first {
        Ok(_) | Err(Error::CutOff { .. } | Error::Unsupported(_)) => return first,
        Err(_) => {}
    }
    // Its own length cannot be relied on. These are all that there can be.
    let mut place = LUKS2_SMALLEST;
    while place <= LARGEST {
        match one(bytes, place) {
            Ok(header) => return Ok(header),
            Err(Error::CutOff { needed }) => return Err(Error::CutOff { needed: needed.min(2 * LARGEST) }),
            Err(_) => place *= 2,
        }
    }
    first
}

/// Reads one of the headers.
fn one(bytes: &[u8], place: u64) -> Result<LuksHeader, Error> {
    let cut_off = |length| Error::CutOff { needed: place + length };
    let header = bytes.get(place as usize..).unwrap_or_default();
    let binary = header.get(..BINARY).ok_or_else(|| cut_off(BINARY as u64))?;
    let size = u64::from_be_bytes(std::array::from_fn(|i| binary[8 + i]));
    if !size.is_power_of_two() || !(LUKS2_SMALLEST..=LARGEST).contains(&size) {
        return Err(Error::Damaged("its length cannot be"));
    }
    let mut header = header.get(..size as usize).ok_or_else(|| cut_off(size))?.to_vec();
    if !magic::restore(&mut header, place != 0) {
        return Err(Error::Damaged("its first bytes are wrong"));
    }
    if u64::from_be_bytes(std::array::from_fn(|i| header[256 + i])) != place {
        return Err(Error::Damaged("it is in another place than it says"));
    }
    let hash = hash(text(&header[72..104])?)?;
    let expected: [u8; MAX_DIGEST] = std::array::from_fn(|i| header[CHECKSUM.start + i]);
    if checksum(hash, &mut header) != expected[..hash.len()] {
        return Err(Error::Damaged("its checksum is wrong"));
    }
    json::parse(text(&header[BINARY..])?, size)
}

/// Puts the checksum of a header into it, and gives it.
pub(crate) fn checksum(hash: Hash, header: &mut [u8]) -> Vec<u8> {
    header[CHECKSUM].fill(0);
    let digest = hash.digest(header)[..hash.len()].to_vec();
    header[CHECKSUM][..digest.len()].copy_from_slice(&digest);
    digest
}
