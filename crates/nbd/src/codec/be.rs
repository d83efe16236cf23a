//! Big-endian integers, and strings.

use onego_wire::{DecodeError, Decoded, Reader};

/// Maximum length of a name, description, query or message, in bytes (nbd proto.md, 'Conventions').
pub const STRING_MAX: usize = 4096;

pub(super) fn u16(r: &mut Reader<'_>, what: &'static str) -> Decoded<u16> {
    Ok(u16::from_be_bytes(r.array(what)?))
}

pub(super) fn u32(r: &mut Reader<'_>, what: &'static str) -> Decoded<u32> {
    Ok(u32::from_be_bytes(r.array(what)?))
}

pub(super) fn u64(r: &mut Reader<'_>, what: &'static str) -> Decoded<u64> {
    Ok(u64::from_be_bytes(r.array(what)?))
}

pub(super) fn magic(r: &mut Reader<'_>, right: u64, what: &'static str) -> Decoded<()> {
    match u64(r, what)? {
        value if value == right => Ok(()),
        value => Err(DecodeError::Invalid { what, value }),
    }
}

/// Reads a string with a 32-bit length.
pub(super) fn string<'a>(r: &mut Reader<'a>, what: &'static str) -> Decoded<&'a [u8]> {
    let length = u32(r, what)?;
    bounded(u64::from(length), STRING_MAX, what)?;
    r.take(length as usize, what)
}

pub(super) fn bounded(value: u64, bound: usize, what: &'static str) -> Decoded<()> {
    match value > bound as u64 {
        true => Err(DecodeError::OverBound { what, value, bound: bound as u64 }),
        false => Ok(()),
    }
}

pub(super) fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    out.extend((string.len() as u32).to_be_bytes());
    out.extend(string);
}
