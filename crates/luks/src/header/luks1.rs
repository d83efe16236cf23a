//! The header of LUKS1: 592 bytes, numbers big endian.

use super::facts::{CIPHER, Digest, KeySlot, LuksHeader, STRIPES, Version, hash, key_length, slot_length};
use crate::error::Error;
use crate::kdf::Kdf;

/// Bytes of the header.
pub(crate) const BINARY: usize = 592;
/// Key slots.
pub(crate) const SLOTS: usize = 8;
/// A key slot in use says this.
pub(crate) const ACTIVE: u32 = 0x00ac_71f3;
/// One that is not says this.
pub(crate) const INACTIVE: u32 = 0x0000_dead;
/// Bytes of sectors.
const SECTOR: u64 = 512;

/// Reads from a header, whose length was checked.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn number(&mut self) -> u32 {
        self.bytes(4).iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    fn text(&mut self, length: usize) -> Result<&'a str, Error> {
        text(self.bytes(length))
    }
}

/// Text that ends with zeros.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Error> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    str::from_utf8(&bytes[..end]).map_err(|_| Error::Damaged("a name in it is not text"))
}

pub(super) fn parse(bytes: &[u8]) -> Result<LuksHeader, Error> {
    let bytes = bytes.get(8..BINARY).ok_or(Error::CutOff { needed: BINARY as u64 })?;
    let mut fields = Fields(bytes);
    let cipher = format!("{}-{}", fields.text(32)?, fields.text(32)?);
    if cipher != CIPHER {
        return Err(Error::Unsupported(format!("the cipher {cipher:?} ({CIPHER:?} is known)")));
    }
    let hash = hash(fields.text(32)?)?;
    let data_offset = u64::from(fields.number()) * SECTOR;
    let key_length = key_length(u64::from(fields.number()))?;
    let digest = fields.bytes(20).to_vec();
    let salt = fields.bytes(32).to_vec();
    let iterations = fields.number();
    let digest = Digest { hash, iterations, salt, digest };
    let _uuid = fields.bytes(40);
    let mut slots = Vec::new();
    for _ in 0..SLOTS {
        let (state, iterations) = (fields.number(), fields.number());
        let salt = fields.bytes(32).to_vec();
        let offset = u64::from(fields.number()) * SECTOR;
        let stripes = fields.number();
        match state {
            INACTIVE => continue,
            ACTIVE => {}
            _ => return Err(Error::Damaged("a key slot is neither in use nor free")),
        }
        if stripes as usize != STRIPES {
            return Err(Error::Damaged("a key slot has another number of stripes than 4000"));
        }
        let kdf = Kdf::Pbkdf2 { hash, iterations, salt };
        let slot = KeySlot { kdf, hash, offset, key_length, length: slot_length(key_length) };
        if slot.offset < BINARY as u64 || data_offset != 0 && slot.area().end > data_offset {
            return Err(Error::Damaged("a key slot lies outside of the header"));
        }
        slots.push(slot);
    }
    let version = Version::One;
    Ok(LuksHeader {
        version,
        data_offset,
        sector_size: SECTOR as u32,
        first_tweak: 0,
        key_length,
        digest,
        slots,
    })
}
