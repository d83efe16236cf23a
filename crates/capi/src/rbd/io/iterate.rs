//! Reads that go through an image piece by piece.

use super::clip;
use crate::border::{Errno, Handle, In, Opaque, call};
use crate::rbd::image::RbdImage;
use crate::runtime::block_on;
use onego_buf::List;
use std::ffi::c_int;

/// A program's function that is called for each piece: how far behind the start it is, bytes, where they are, its own argument. What
/// it returns below 0 ends the walk.
type Visit = Option<extern "C" fn(u64, usize, In<u8>, Opaque) -> c_int>;

/// Bytes that were visited, or what the program returned below 0.
fn iterate(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    visit: Visit,
    argument: Opaque,
) -> Result<i64, Errno> {
    let visit = visit.ok_or(Errno::INVAL)?;
    let image = image.get()?.image()?;
    let len = clip(&image, offset, len)? as u64;
    let layout = &image.info().layout;
    // What lies in the same objects is read at a time, and no more than a read may have.
    let stripe = (layout.object_size() * layout.stripe_count()).min(onego::rbd::MAX_IO);
    let mut done = 0;
    while done < len {
        let at = offset + done;
        let part = (stripe - at % stripe).min(len - done);
        let bytes: List = block_on(image.read(at, part))?;
        let bytes = bytes.to_vec();
        let answer = visit(done, bytes.len(), In::of(&bytes), argument);
        if answer < 0 {
            return Ok(answer.into());
        }
        done += part;
    }
    Ok(done as i64)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_read_iterate(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    visit: Visit,
    argument: Opaque,
) -> i64 {
    call(|| iterate(image, offset, len, visit, argument))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_read_iterate2(
    image: Handle<RbdImage>,
    offset: u64,
    len: u64,
    visit: Visit,
    argument: Opaque,
) -> c_int {
    call(|| {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(iterate(image, offset, len, visit, argument)?.min(0) as c_int)
    })
}
