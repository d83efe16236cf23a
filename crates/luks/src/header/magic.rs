//! The first bytes of a header.
//!
//! The header of a clone that was formatted while its parent shows through begins with other bytes, so that nobody takes
//! the whole image for a disk of LUKS (ceph `src/librbd/crypto/luks/Magic.cc`).

use super::facts::Version;
use crate::error::Error;

pub(crate) const LUKS: [u8; 6] = *b"LUKS\xba\xbe";
/// The second header of LUKS2 begins with these.
pub(crate) const SECOND: [u8; 6] = *b"SKUL\xba\xbe";
const CLONE: [u8; 6] = *b"RBDL\xba\xbe";
const CLONE_SECOND: [u8; 6] = *b"LDBR\xba\xbe";

/// The fewest bytes of a header of LUKS2 with its JSON: behind them is the second, if the first has no more.
pub(crate) const LUKS2_SMALLEST: u64 = 16 << 10;

/// Do the first bytes of a disk say that a header of LUKS follows?
pub fn is_luks(bytes: &[u8]) -> bool {
    bytes.starts_with(&LUKS) || bytes.starts_with(&CLONE)
}

/// Do they say that it is the header of a clone, whose parent has another key?
pub fn is_hidden(bytes: &[u8]) -> bool {
    bytes.starts_with(&CLONE)
}

/// Which format has a disk that begins with these bytes?
pub(super) fn version(bytes: &[u8]) -> Result<Version, Error> {
    if !is_luks(bytes) {
        return Err(Error::Missing);
    }
    match bytes.get(6..8) {
        None => Err(Error::CutOff { needed: 8 }),
        Some([0, 1]) => Ok(Version::One),
        Some([0, 2]) => Ok(Version::Two),
        Some(other) => {
            Err(Error::Unsupported(format!("version {}", u16::from_be_bytes([other[0], other[1]]))))
        }
    }
}

/// The usual first bytes in the place of those of a clone. Gives whether the bytes are the first or the second header's.
pub(super) fn restore(header: &mut [u8], is_second: bool) -> bool {
    let (usual, of_clone) = if is_second { (SECOND, CLONE_SECOND) } else { (LUKS, CLONE) };
    if header.starts_with(&of_clone) {
        header[..6].copy_from_slice(&usual);
    }
    header.starts_with(&usual)
}

/// Makes a new header one of a clone.
pub fn hide(header: &mut [u8]) {
    for at in [0, LUKS2_SMALLEST as usize] {
        let Some(magic) = header.get_mut(at..at + 6) else { return };
        if *magic == LUKS {
            magic.copy_from_slice(&CLONE);
        } else if *magic == SECOND {
            magic.copy_from_slice(&CLONE_SECOND);
        }
    }
}
