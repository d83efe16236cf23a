//! Lists of names one behind the other, each with a zero, and an empty one at the end.

use crate::border::{Errno, Out};
use onego_wire::text::to_bytes;

/// Gives as many whole names as there is room for, and returns how many bytes all of them take.
pub(super) fn give<'a>(
    names: impl Iterator<Item = &'a str>,
    buf: Out<u8>,
    len: usize,
) -> Result<usize, Errno> {
    // A list that is cut ends where the memory does.
    let (mut shown, mut needed) = (Vec::new(), 0);
    for name in names {
        let name = to_bytes(name);
        needed += name.len() + 1;
        if needed <= len {
            shown.extend_from_slice(&name);
            shown.push(0);
        }
    }
    shown.resize(len.min(shown.len() + 1), 0);
    buf.copy(&shown, len)?;
    Ok(needed + 1)
}
