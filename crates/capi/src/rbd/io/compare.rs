//! Writes that happen if the bytes that are there are the expected ones.

use super::{How, IoVec, Vector, clip, gather, submit, vector_of, writable};
use crate::border::{Errno, Handle, In, Out};
use crate::rbd::image::RbdImage;
use crate::runtime::{AioCompletion, Operation};
use onego::rbd::ImageInfo;
use onego_buf::List;
use std::ffi::c_int;
use std::sync::Arc;

/// Memory of a caller's that becomes a list of `len` bytes.
trait Lent: Copy {
    fn list(&self, len: usize, operation: &Arc<Operation>) -> Result<List, Errno>;
}

impl Lent for In<u8> {
    fn list(&self, len: usize, operation: &Arc<Operation>) -> Result<List, Errno> {
        if len == 0 { Ok(List::new()) } else { Ok(self.lend(len, Arc::clone(operation))?.into()) }
    }
}

impl Lent for Vector<'_> {
    fn list(&self, len: usize, operation: &Arc<Operation>) -> Result<List, Errno> {
        gather(self, len, operation)
    }
}

/// Compares and writes. Where the first difference is goes to `mismatch`, and EILSEQ says that there is one.
fn compare_and_write(
    image: Handle<RbdImage>,
    how: How,
    (offset, len): (u64, usize),
    expected: impl Lent,
    data: impl Lent,
    mismatch: Out<u64>,
) -> isize {
    submit(image, how, |image, operation| {
        let image = image.image()?;
        writable(&image)?;
        let len = clip(&image, offset, len)?;
        if image.info().layout.map(offset, len as u64).len() > 1 {
            return Err(Errno::INVAL);
        }
        let (expected, data) = (expected.list(len, operation)?, data.list(len, operation)?);
        Ok(async move {
            match image.compare_and_write(offset, expected, data).await? {
                None => Ok(super::result(how, len as u64)),
                Some(at) => {
                    mismatch.set_if_wanted(place_of_difference(image.info(), offset, at));
                    Err(Errno(libc::EILSEQ))
                }
            }
        })
    })
}

/// Where librbd says that the first difference is: it counts from the start of the object, whatever `offset` is in it.
fn place_of_difference(info: &ImageInfo, offset: u64, at: u64) -> u64 {
    let object = info.layout.map(offset, 1).first().map_or(0, |extent| extent.object);
    info.layout.ranges(object, at, 1).first().map_or(at, |range| range.start)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_compare_and_write(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    expected: In<u8>,
    data: In<u8>,
    mismatch: Out<u64>,
    _flags: c_int,
) -> isize {
    compare_and_write(image, How::Wait, (offset, len), expected, data, mismatch)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_compare_and_write(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    expected: In<u8>,
    data: In<u8>,
    completion: Handle<AioCompletion>,
    mismatch: Out<u64>,
    _flags: c_int,
) -> isize {
    compare_and_write(image, How::Later(completion), (offset, len), expected, data, mismatch)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_compare_and_writev(
    image: Handle<RbdImage>,
    offset: u64,
    expected: In<IoVec<In<u8>>>,
    expected_count: c_int,
    data: In<IoVec<In<u8>>>,
    count: c_int,
    completion: Handle<AioCompletion>,
    mismatch: Out<u64>,
    _flags: c_int,
) -> isize {
    let vectors =
        vector_of(&expected, expected_count).and_then(|expected| Ok((expected, vector_of(&data, count)?)));
    let ((expected, expected_len), (data, len)) = match vectors {
        Ok(vectors) => vectors,
        Err(errno) => return errno.negative() as isize,
    };
    if expected_len != len {
        return Errno::INVAL.negative() as isize;
    }
    compare_and_write(image, How::Later(completion), (offset, len), expected, data, mismatch)
}
