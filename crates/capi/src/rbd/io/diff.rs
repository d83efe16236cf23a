//! Which parts of an image have changed.

use super::clip;
use crate::border::{Errno, Handle, Opaque, Text, call};
use crate::rbd::image::RbdImage;
use crate::runtime::block_on;
use onego::rbd::{Diff, DiffOptions};
use std::ffi::c_int;

/// A program's function that is called for each part: first byte, bytes, whether it holds data, its own argument. What it returns
/// below 0 ends the walk.
type Visit = Option<extern "C" fn(u64, usize, c_int, Opaque) -> c_int>;

/// Flags of `rbd_diff_iterate3` (`RBD_DIFF_ITERATE_FLAG_*`).
const INCLUDE_PARENT: u32 = 1;
const WHOLE_OBJECT: u32 = 2;

/// Where a walk begins.
enum DiffStart {
    Nothing,
    Name(String),
    Id(u64),
}

impl DiffStart {
    fn name(name: Text) -> Self {
        match name.is_null() {
            true => Self::Nothing,
            false => Self::Name(name.text_or_empty().into_owned()),
        }
    }
}

/// Walks over the parts that have changed. Of a clone, what its parent shows counts, too, if it is wanted.
fn walk(
    image: Handle<RbdImage>,
    from: DiffStart,
    (offset, length): (u64, u64),
    flags: u32,
    (visit, argument): (Visit, Opaque),
) -> Result<c_int, Errno> {
    let (image, visit) = (image.get()?, visit.ok_or(Errno::INVAL)?);
    let length = clip(&image.image()?, offset, usize::try_from(length).unwrap_or(usize::MAX))? as u64;
    let end = offset + length;
    let mut options = DiffOptions::new();
    options = match from {
        DiffStart::Nothing => options,
        DiffStart::Name(name) => options.from(name),
        DiffStart::Id(id) => options.from_id(id),
    };
    if let Some(snapshot) = image.snapshot() {
        options = options.to_id(snapshot);
    }
    if flags & WHOLE_OBJECT != 0 {
        options = options.of_whole_objects();
    }
    if flags & INCLUDE_PARENT == 0 {
        options = options.without_parent();
    }
    let mut diff = block_on(Diff::open(image.pool(), &image.name()?, &options))?;
    if length == 0 {
        return Ok(0);
    }
    diff.skip_to(offset);
    while let Some(range) = block_on(diff.next())? {
        if range.offset >= end {
            break;
        }
        let first = range.offset.max(offset);
        let last = range.end().min(end);
        let answer = visit(first, (last - first) as usize, range.exists.into(), argument);
        if answer < 0 {
            return Ok(answer);
        }
    }
    Ok(0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_diff_iterate(
    image: Handle<RbdImage>,
    from: Text,
    offset: u64,
    length: u64,
    visit: Visit,
    argument: Opaque,
) -> c_int {
    rbd_diff_iterate2(image, from, offset, length, 1, 0, visit, argument)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_diff_iterate2(
    image: Handle<RbdImage>,
    from: Text,
    offset: u64,
    length: u64,
    include_parent: u8,
    whole_object: u8,
    visit: Visit,
    argument: Opaque,
) -> c_int {
    let parent = if include_parent == 0 { 0 } else { INCLUDE_PARENT };
    let whole = if whole_object == 0 { 0 } else { WHOLE_OBJECT };
    call(|| walk(image, DiffStart::name(from), (offset, length), parent | whole, (visit, argument)))
}

/// Number 0 is no snapshot: the walk begins with nothing.
#[unsafe(no_mangle)]
extern "C" fn rbd_diff_iterate3(
    image: Handle<RbdImage>,
    from: u64,
    offset: u64,
    length: u64,
    flags: u32,
    visit: Visit,
    argument: Opaque,
) -> c_int {
    call(|| {
        if flags & !(INCLUDE_PARENT | WHOLE_OBJECT) != 0 {
            return Err(Errno::INVAL);
        }
        let from = if from == 0 { DiffStart::Nothing } else { DiffStart::Id(from) };
        walk(image, from, (offset, length), flags, (visit, argument))
    })
}
