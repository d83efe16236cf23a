//! Reads and writes of images.

mod compare;
mod diff;
mod iterate;

use super::image::RbdImage;
use crate::border::{Errno, Handle, In, Out, call};
use crate::runtime::{AioCompletion, Operation};
use onego::ceph::ImageRequest;
use onego::rbd::{Image, MAX_IO};
use onego_buf::{List, SegmentMut};
use std::ffi::c_int;
use std::sync::Arc;

/// How a call takes the result.
#[derive(Clone, Copy)]
enum How {
    /// It waits.
    Wait,
    /// The completion has it.
    Later(Handle<AioCompletion>),
}

/// A piece of memory (`struct iovec`).
#[repr(C)]
struct IoVec<T> {
    base: T,
    len: usize,
}

/// Begins an operation on an image, which `go` has carried out.
fn begin(
    image: Handle<RbdImage>,
    how: How,
    go: impl FnOnce(&RbdImage, &Arc<Operation>) -> Result<(), Errno>,
) -> isize {
    call(|| {
        let image = image.get()?;
        let go = |operation: &Arc<Operation>| go(image, operation);
        match how {
            How::Wait => image.client().wait_for(go).map(|result| result as isize),
            How::Later(completion) => {
                let completion = completion.share()?;
                if let Some(events) = image.events() {
                    completion.belongs_to(events);
                }
                image.client().begin(completion, None, go);
                Ok(0)
            }
        }
    })
}

/// Begins the future that `make` makes of the image and its operation.
fn submit<F>(
    image: Handle<RbdImage>,
    how: How,
    make: impl FnOnce(&RbdImage, &Arc<Operation>) -> Result<F, Errno>,
) -> isize
where
    F: Future<Output = Result<i64, Errno>> + Send + 'static,
{
    begin(image, how, |image, operation| {
        operation.carry_out(make(image, operation)?);
        Ok(())
    })
}

/// Begins the one request that `make` makes, with the result that it has if it succeeds. A future would cost more than the rest of
/// the call.
fn request(
    image: Handle<RbdImage>,
    how: How,
    make: impl FnOnce(&Image, &Arc<Operation>) -> Result<(ImageRequest, i64), Errno>,
) -> isize {
    begin(image, how, |image, operation| {
        let image = image.image()?;
        let (request, success) = make(&image, operation)?;
        let operation = Arc::clone(operation);
        image.begin(request, move |outcome| operation.end(outcome.map(|_| success).map_err(Errno::from)))?;
        Ok(())
    })
}

/// What of a request lies within the image, in bytes. One that begins behind the end makes no sense; one that crosses it ends
/// there.
fn clip(image: &Image, offset: u64, len: usize) -> Result<usize, Errno> {
    let left = image.size().saturating_sub(offset);
    match len {
        0 => Ok(0),
        _ if left == 0 => Err(Errno::INVAL),
        _ => Ok(len.min(usize::try_from(left).unwrap_or(usize::MAX))),
    }
}

fn writable(image: &Image) -> Result<(), Errno> {
    if image.is_writable() { Ok(()) } else { Err(Errno::ROFS) }
}

fn read(image: Handle<RbdImage>, how: How, offset: u64, len: usize, buf: Out<u8>) -> isize {
    if len as u64 <= MAX_IO {
        return request(image, how, |image, operation| {
            let len = clip(image, offset, len)?;
            let buffer = buf.lend(len, Arc::clone(operation))?;
            Ok((ImageRequest::Read { offset, buffer }, len as i64))
        });
    }
    submit(image, how, |image, operation| {
        let image = image.image()?;
        let len = clip(&image, offset, len)?;
        let buffer = buf.lend(len, Arc::clone(operation))?;
        Ok(async move { fill(&image, offset, buffer).await.map(|()| len as i64) })
    })
}

/// Reads into a buffer of any length.
async fn fill(image: &Image, mut offset: u64, mut rest: SegmentMut) -> Result<(), Errno> {
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(MAX_IO as usize));
        offset += image.read_into(offset, part).await?.len() as u64;
    }
    Ok(())
}

fn read_vector(
    image: Handle<RbdImage>,
    how: How,
    offset: u64,
    vector: In<IoVec<Out<u8>>>,
    count: c_int,
) -> isize {
    submit(image, how, |image, operation| {
        let vector = vector.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
        let image = image.image()?;
        let whole = vector.iter().map(|part| part.len).fold(0, usize::saturating_add);
        let mut left = clip(&image, offset, whole)?;
        let len = left as i64;
        let mut parts = Vec::with_capacity(vector.len());
        for part in vector {
            parts.push(part.base.lend(part.len.min(left), Arc::clone(operation))?);
            left -= part.len.min(left);
        }
        Ok(async move { scatter(&image, offset, parts).await.map(|()| len) })
    })
}

/// Reads into pieces of memory. One is received into; to ask for each of several by itself would cost more than to copy
/// what comes for all of them.
async fn scatter(image: &Image, mut offset: u64, mut parts: Vec<SegmentMut>) -> Result<(), Errno> {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return fill(image, offset, only).await;
    }
    let mut left: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let parts = parts.into_iter().flat_map(|mut part| {
        // A piece that is longer than one read is taken as several.
        std::iter::from_fn(move || (!part.is_empty()).then(|| part.split_to(part.len().min(MAX_IO as usize))))
    });
    let mut got = List::new();
    for mut part in parts {
        while got.len() < part.len() {
            let more = left.min(MAX_IO);
            got.append(image.read(offset, more).await?);
            (offset, left) = (offset + more, left - more);
        }
        got.split_to(part.len()).copy_to(&mut part);
    }
    Ok(())
}

/// Writes a list of any length.
async fn store(image: &Image, mut offset: u64, mut rest: List) -> Result<(), Errno> {
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(MAX_IO as usize));
        let len = part.len() as u64;
        image.write(offset, part).await?;
        offset += len;
    }
    Ok(())
}

/// Writes what `data` gives for the length that lies within the image.
fn write(
    image: Handle<RbdImage>,
    how: How,
    offset: u64,
    len: usize,
    data: impl FnOnce(usize, &Arc<Operation>) -> Result<List, Errno>,
) -> isize {
    if len as u64 <= MAX_IO {
        return request(image, how, |image, operation| {
            writable(image)?;
            let len = clip(image, offset, len)?;
            Ok((ImageRequest::Write { offset, data: data(len, operation)? }, result(how, len as u64)))
        });
    }
    submit(image, how, |image, operation| {
        let image = image.image()?;
        writable(&image)?;
        let len = clip(&image, offset, len)?;
        let data = data(len, operation)?;
        Ok(async move { store(&image, offset, data).await.map(|()| result(how, len as u64)) })
    })
}

/// The result of a change: what waits for it gets its bytes, a completion gets 0.
fn result(how: How, len: u64) -> i64 {
    match how {
        How::Wait => len as i64,
        How::Later(_) => 0,
    }
}

fn write_plain(image: Handle<RbdImage>, how: How, offset: u64, len: usize, buf: In<u8>) -> isize {
    write(image, how, offset, len, |len, operation| {
        if len == 0 {
            return Ok(List::new());
        }
        Ok(buf.lend(len, Arc::clone(operation))?.into())
    })
}

/// Pieces of memory that are written.
type Vector<'a> = &'a [IoVec<In<u8>>];

/// A vector of a caller's, and its bytes.
fn vector_of(vector: &In<IoVec<In<u8>>>, count: c_int) -> Result<(Vector<'_>, usize), Errno> {
    let vector = vector.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
    Ok((vector, vector.iter().map(|part| part.len).fold(0, usize::saturating_add)))
}

/// The first bytes of a vector, as they lie in the caller's memory.
fn gather(vector: Vector<'_>, mut left: usize, operation: &Arc<Operation>) -> Result<List, Errno> {
    let mut list = List::new();
    for part in vector {
        let len = part.len.min(left);
        if len > 0 {
            list.push(part.base.lend(len, Arc::clone(operation))?);
        }
        left -= len;
    }
    Ok(list)
}

fn write_vector(
    image: Handle<RbdImage>,
    how: How,
    offset: u64,
    vector: In<IoVec<In<u8>>>,
    count: c_int,
) -> isize {
    match vector_of(&vector, count) {
        Ok((vector, whole)) => {
            write(image, how, offset, whole, |len, operation| gather(vector, len, operation))
        }
        Err(errno) => errno.negative() as isize,
    }
}

/// Bytes that one piece of a long repeated write has at most.
const MAX_REPEATED: usize = 4 << 20;

/// Bytes of a pattern that is repeated as it lies there. One that is shorter is made longer first: a list of a piece's many
/// copies would take more memory than the piece.
const MIN_PATTERN: usize = 64 << 10;

/// Most bytes of calls that return them as an `int`.
fn check_int(len: u64) -> Result<(), Errno> {
    if len > c_int::MAX as u64 { Err(Errno::INVAL) } else { Ok(()) }
}

fn write_same(image: Handle<RbdImage>, how: How, offset: u64, len: usize, pattern: (In<u8>, usize)) -> isize {
    let (buf, pattern_len) = pattern;
    submit(image, how, |image, operation| {
        if pattern_len == 0 || !len.is_multiple_of(pattern_len) {
            return Err(Errno::INVAL);
        }
        let image = image.image()?;
        writable(&image)?;
        let len = clip(&image, offset, len)?;
        let (pattern, pattern_len) = match pattern_len {
            short @ ..MIN_PATTERN => {
                let copies = (MIN_PATTERN / short).min(len.div_ceil(short)).max(1);
                (List::from(buf.slice(short)?.repeat(copies)), short * copies)
            }
            long => (List::from(buf.lend(long, Arc::clone(operation))?), long),
        };
        Ok(async move {
            let piece = (MAX_REPEATED / pattern_len).max(1) * pattern_len;
            let mut at = 0;
            while at < len {
                let part_len = piece.min(len - at);
                let mut part = List::new();
                while part.len() < part_len {
                    part.append(pattern.slice(0, pattern_len.min(part_len - part.len())));
                }
                store(&image, offset + at as u64, part).await?;
                at += part_len;
            }
            Ok(result(how, len as u64))
        })
    })
}

fn zero(image: Handle<RbdImage>, how: How, offset: u64, len: u64) -> isize {
    zero_aligned(image, how, offset, len, |_| 1)
}

/// Gives up what frees room: whole pieces of what the configuration calls a grain. The rest stays as it is.
fn discard(image: Handle<RbdImage>, how: How, offset: u64, len: u64) -> isize {
    zero_aligned(image, how, offset, len, RbdImage::discard_grain)
}

fn zero_aligned(
    image: Handle<RbdImage>,
    how: How,
    offset: u64,
    len: u64,
    grain: fn(&RbdImage) -> u64,
) -> isize {
    submit(image, how, |image, _| {
        let grain = grain(image);
        let image = image.image()?;
        writable(&image)?;
        let len = clip(&image, offset, usize::try_from(len).unwrap_or(usize::MAX))? as u64;
        let (start, end) = (offset.next_multiple_of(grain), (offset + len) / grain * grain);
        Ok(async move {
            if start >= end && len > 0 {
                // In librbd a discard takes the lock even if no whole grain is left to discard.
                image.own().await?;
            }
            let mut at = start;
            while at < end {
                let part = MAX_IO.min(end - at);
                image.write_zeroes(at, part).await?;
                at += part;
            }
            Ok(result(how, len))
        })
    })
}

/// A flag of zeros: they take the room that other bytes would (`RBD_WRITE_ZEROES_FLAG_THICK_PROVISION`).
const THICK: c_int = 1;

/// Zeros as memory.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

fn write_zeros(image: Handle<RbdImage>, how: How, offset: u64, len: u64, flags: c_int) -> isize {
    match flags {
        0 => zero(image, how, offset, len),
        THICK => submit(image, how, |image, _| {
            let image = image.image()?;
            writable(&image)?;
            let len = clip(&image, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
            let zeros = List::from(ZEROS.to_vec());
            Ok(async move {
                let mut at = 0;
                while at < len {
                    let mut part = List::new();
                    while part.len() < MAX_REPEATED.min(len - at) {
                        let left = MAX_REPEATED.min(len - at) - part.len();
                        part.append(zeros.slice(0, zeros.len().min(left)));
                    }
                    let part_len = part.len();
                    store(&image, offset + at as u64, part).await?;
                    at += part_len;
                }
                Ok(result(how, len as u64))
            })
        }),
        _ => Errno::INVAL.negative() as isize,
    }
}

fn flush(image: Handle<RbdImage>, how: How) -> isize {
    submit(image, how, |image, _| {
        let image = image.image()?;
        Ok(async move {
            image.flush().await?;
            Ok(0)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_read(image: Handle<RbdImage>, offset: u64, len: usize, buf: Out<u8>) -> isize {
    read(image, How::Wait, offset, len, buf)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_read2(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: Out<u8>,
    _flags: c_int,
) -> isize {
    read(image, How::Wait, offset, len, buf)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_read(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: Out<u8>,
    completion: Handle<AioCompletion>,
) -> c_int {
    read(image, How::Later(completion), offset, len, buf) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_read2(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: Out<u8>,
    completion: Handle<AioCompletion>,
    _flags: c_int,
) -> c_int {
    read(image, How::Later(completion), offset, len, buf) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_readv(
    image: Handle<RbdImage>,
    vector: In<IoVec<Out<u8>>>,
    count: c_int,
    offset: u64,
    completion: Handle<AioCompletion>,
) -> c_int {
    read_vector(image, How::Later(completion), offset, vector, count) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_write(image: Handle<RbdImage>, offset: u64, len: usize, buf: In<u8>) -> isize {
    write_plain(image, How::Wait, offset, len, buf)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_write2(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: In<u8>,
    _flags: c_int,
) -> isize {
    write_plain(image, How::Wait, offset, len, buf)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_write(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: In<u8>,
    completion: Handle<AioCompletion>,
) -> c_int {
    write_plain(image, How::Later(completion), offset, len, buf) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_write2(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: In<u8>,
    completion: Handle<AioCompletion>,
    _flags: c_int,
) -> c_int {
    write_plain(image, How::Later(completion), offset, len, buf) as c_int
}

/// The checksum saves librbd its own; the messenger here makes its own of what it sends.
#[unsafe(no_mangle)]
extern "C" fn rbd_aio_write_with_crc32c(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: In<u8>,
    _crc32c: u32,
    completion: Handle<AioCompletion>,
    _flags: c_int,
) -> c_int {
    write_plain(image, How::Later(completion), offset, len, buf) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_writev(
    image: Handle<RbdImage>,
    vector: In<IoVec<In<u8>>>,
    count: c_int,
    offset: u64,
    completion: Handle<AioCompletion>,
) -> c_int {
    write_vector(image, How::Later(completion), offset, vector, count) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_writesame(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: In<u8>,
    data_len: usize,
    _flags: c_int,
) -> isize {
    match check_int(len as u64) {
        Ok(()) => write_same(image, How::Wait, offset, len, (buf, data_len)),
        Err(errno) => errno.negative() as isize,
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_writesame(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    buf: In<u8>,
    data_len: usize,
    completion: Handle<AioCompletion>,
    _flags: c_int,
) -> c_int {
    write_same(image, How::Later(completion), offset, len, (buf, data_len)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_discard(image: Handle<RbdImage>, offset: u64, len: u64) -> c_int {
    match check_int(len) {
        Ok(()) => discard(image, How::Wait, offset, len) as c_int,
        Err(errno) => errno.negative(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_discard(
    image: Handle<RbdImage>,
    offset: u64,
    len: u64,
    completion: Handle<AioCompletion>,
) -> c_int {
    discard(image, How::Later(completion), offset, len) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_write_zeroes(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    zero_flags: c_int,
    _flags: c_int,
) -> isize {
    write_zeros(image, How::Wait, offset, len as u64, zero_flags)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_write_zeroes(
    image: Handle<RbdImage>,
    offset: u64,
    len: usize,
    completion: Handle<AioCompletion>,
    zero_flags: c_int,
    _flags: c_int,
) -> c_int {
    write_zeros(image, How::Later(completion), offset, len as u64, zero_flags) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_flush(image: Handle<RbdImage>) -> c_int {
    flush(image, How::Wait) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_flush(image: Handle<RbdImage>, completion: Handle<AioCompletion>) -> c_int {
    flush(image, How::Later(completion)) as c_int
}

/// Nothing is kept of what was read.
#[unsafe(no_mangle)]
extern "C" fn rbd_invalidate_cache(image: Handle<RbdImage>) -> c_int {
    call(|| image.get().map(|_| 0))
}
