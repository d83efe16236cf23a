//! What a header says, whatever its form.

use crate::error::Error;
use crate::kdf::{Budget, Kdf};
use crate::key::VolumeKey;
use crate::sectors::Sectors;
use crate::stripes::merge;
use onego_cipher::hash::Hash;
use std::ops::Range;

/// The one cipher that is supported, as headers write it.
pub(crate) const CIPHER: &str = "aes-xts-plain64";
/// Most stripes of a key slot; all programs make 4000.
pub(crate) const STRIPES: usize = 4000;

/// Which of the two formats a header has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// LUKS1.
    One,
    /// LUKS2.
    Two,
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LuksHeader {
    pub(crate) version: Version,
    pub(crate) data_offset: u64,
    pub(crate) sector_size: u32,
    pub(crate) first_tweak: u64,
    pub(crate) key_length: usize,
    pub(crate) digest: Digest,
    pub(crate) slots: Vec<KeySlot>,
}

/// What tells the right key of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) hash: Hash,
    pub(crate) iterations: u32,
    pub(crate) salt: Vec<u8>,
    pub(crate) digest: Vec<u8>,
}

/// Where the key of the data lies, and how it is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySlot {
    pub(crate) kdf: Kdf,
    pub(crate) hash: Hash,
    pub(crate) offset: u64,
    /// Bytes of the key that comes of the passphrase.
    pub(crate) key_length: usize,
    /// Bytes of the area that are used: whole sectors.
    pub(crate) length: usize,
}

impl KeySlot {
    /// Where it lies, in bytes from the start of the disk. It has a megabyte at most.
    pub fn area(&self) -> Range<u64> {
        self.offset..self.offset + self.length as u64
    }
}

impl LuksHeader {
    /// Which of the two formats it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// First byte of the data, a multiple of 512.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Bytes of a sector: 512 to 4096, a power of two.
    pub fn sector_size(&self) -> u32 {
        self.sector_size
    }

    /// The key slots in use, best first: 32 at most.
    pub fn slots(&self) -> &[KeySlot] {
        &self.slots
    }

    /// Tries a passphrase on a key slot whose [area](KeySlot::area) has these bytes. It takes seconds of CPU. `None`: it is not
    /// the one.
    pub fn unlock(
        &self,
        slot: &KeySlot,
        area: &[u8],
        passphrase: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<VolumeKey>, Error> {
        let key = VolumeKey::new(slot.kdf.derive(passphrase, slot.key_length, budget)?.to_vec());
        let mut spread = zeroize::Zeroizing::new(area.to_vec());
        if spread.len() != slot.length {
            return Err(Error::CutOff { needed: slot.area().end });
        }
        // Not what `Sectors::decrypt` does: nothing in it is a hole.
        let mut xts = onego_cipher::xts::Xts::new(key.as_bytes())?;
        spread.chunks_exact_mut(512).zip(0..).for_each(|(sector, number)| xts.decrypt(number, sector));
        let key = VolumeKey::new(merge(slot.hash, &spread[..self.key_length * STRIPES], self.key_length));
        Ok(self.digest.fits(&key, budget)?.then_some(key))
    }

    /// The cipher of the data.
    pub fn sectors(&self, key: &VolumeKey) -> Result<Sectors, Error> {
        Sectors::new(key, self.sector_size, self.first_tweak)
    }
}

impl Digest {
    fn fits(&self, key: &VolumeKey, budget: &mut Budget) -> Result<bool, Error> {
        let Self { hash, iterations, salt, digest } = self;
        let kdf = Kdf::Pbkdf2 { hash: *hash, iterations: *iterations, salt: salt.clone() };
        Ok(kdf.derive(key.as_bytes(), digest.len(), budget)?.as_slice() == digest)
    }
}

/// The hash function of that name.
pub(crate) fn hash(name: &str) -> Result<Hash, Error> {
    Hash::named(name).ok_or_else(|| Error::Unsupported(format!("the hash function {name:?}")))
}

/// A length of keys that the cipher has.
pub(crate) fn key_length(bytes: u64) -> Result<usize, Error> {
    match bytes {
        32 | 64 => Ok(bytes as usize),
        _ => Err(Error::Unsupported(format!("a key of {bytes} bytes (32 and 64 are known)"))),
    }
}

/// Bytes of a key slot's area that are used, in whole sectors.
pub(crate) fn slot_length(key_length: usize) -> usize {
    (key_length * STRIPES).next_multiple_of(512)
}
