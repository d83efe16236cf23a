//! Execution of requests on a thread.

use crate::container::Container;
use crate::disk::Opened;
use onego_block::{BlockStatus, Error, Flags, Op, Outcome, StatusExtent, zeros};
use onego_buf::{List, Pool, SegmentMut};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSlice};

/// Maximum segments per system call (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// Number of zeros to write at a time if nothing faster is supported.
const ZEROS_AT_A_TIME: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) offset: u64,
    pub(crate) op: Op,
    pub(crate) flags: Flags,
}

impl Operation {
    /// Executes the request; may block.
    pub(crate) fn run(self, disk: &Opened, pool: &Pool) -> Result<Outcome, Error> {
        if let Some(container) = &disk.container {
            return self.run_in(container, disk, pool);
        }
        let Self { offset, op, flags } = self;
        match op {
            Op::Read { length } => {
                let mut buffer = pool.get(length as usize);
                read(disk, offset, &mut buffer)?;
                Ok(Outcome::Data(buffer.into()))
            }
            Op::ReadInto { mut buffer } => {
                read_into(disk, pool, offset, &mut buffer)?;
                Ok(Outcome::Filled(buffer))
            }
            Op::Write { data } => {
                write(disk, pool, offset, data, flags.fua)?;
                Ok(Outcome::Done)
            }
            Op::Flush => {
                disk.flush()?;
                Ok(Outcome::Done)
            }
            Op::Trim { length } => {
                trim(disk, offset, length)?;
                sync_if(disk, flags.fua)
            }
            Op::Zero { length } => {
                zero(disk, pool, offset, length, flags)?;
                sync_if(disk, flags.fua)
            }
            Op::Status { length } => status(disk, offset, length).map(Outcome::Status),
        }
    }
}

impl Operation {
    /// Carries it out on the disk in a qcow2 file.
    fn run_in(self, container: &Container, disk: &Opened, pool: &Pool) -> Result<Outcome, Error> {
        let Self { offset, op, flags } = self;
        let failed = |error: io::Error| disk.failed_in(&error);
        match op {
            Op::Read { length } => {
                let mut buffer = pool.get(length as usize);
                container.read(offset, &mut buffer).map_err(failed)?;
                return Ok(Outcome::Data(buffer.into()));
            }
            Op::ReadInto { mut buffer } => {
                container.read(offset, &mut buffer).map_err(failed)?;
                return Ok(Outcome::Filled(buffer));
            }
            Op::Write { data } => {
                let mut at = offset;
                for segment in data.segments() {
                    container.write(at, segment).map_err(failed)?;
                    at += segment.len() as u64;
                }
            }
            Op::Zero { .. } if flags.fast => {
                return Err(Error::Unsupported("make zeros faster than it writes them"));
            }
            Op::Zero { length } => container.write_zeros(offset, length).map_err(failed)?,
            // It is only a hint.
            Op::Trim { .. } => {}
            Op::Flush => container.sync().map_err(failed)?,
            Op::Status { length } => {
                return container.status(offset, length).map(Outcome::Status).map_err(failed);
            }
        }
        if flags.fua {
            container.sync().map_err(failed)?;
        }
        Ok(Outcome::Done)
    }
}

/// Fills aligned memory, by direct I/O if possible.
fn read(disk: &Opened, offset: u64, buffer: &mut SegmentMut) -> Result<(), Error> {
    if let Some(file) = disk.direct(offset, buffer.len() as u64)
        && disk.takes_memory(buffer)
    {
        match fill(file, offset, buffer) {
            // The file system has stricter alignment requirements than it reports.
            Err(Failed::System(Errno::INVAL)) => {}
            other => return other.map_err(|failed| failed.of(disk)),
        }
    }
    fill(&disk.file, offset, buffer).map_err(|failed| failed.of(disk))
}

/// Fills the caller's memory, through an aligned buffer if direct I/O cannot use it.
fn read_into(disk: &Opened, pool: &Pool, offset: u64, buffer: &mut SegmentMut) -> Result<(), Error> {
    if disk.takes_memory(buffer) || disk.direct(offset, buffer.len() as u64).is_none() {
        return read(disk, offset, buffer);
    }
    let mut aligned = pool.get(buffer.len());
    read(disk, offset, &mut aligned)?;
    buffer.copy_from_slice(&aligned);
    Ok(())
}

enum Failed {
    System(Errno),
    Shorter,
}

impl Failed {
    fn of(self, disk: &Opened) -> Error {
        match self {
            Self::System(error) => disk.failed(error),
            Self::Shorter => disk.became_shorter(),
        }
    }
}

fn fill(file: &File, offset: u64, buffer: &mut [u8]) -> Result<(), Failed> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(Failed::Shorter),
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Failed::System(error)),
        }
    }
    Ok(())
}

/// Writes a list, by direct I/O if possible, through an aligned buffer if necessary.
fn write(disk: &Opened, pool: &Pool, offset: u64, data: List, fua: bool) -> Result<(), Error> {
    if let Some(file) = disk.direct(offset, data.len() as u64) {
        let aligned = match data.segments().all(|segment| disk.takes_memory(segment)) {
            true => data.clone(),
            false => {
                let mut aligned = pool.get(data.len());
                data.copy_to(&mut aligned);
                aligned.into()
            }
        };
        match put(file, offset, aligned, fua) {
            Err(Errno::INVAL) => {}
            other => return disk.written(other, fua),
        }
    }
    disk.written(put(&disk.file, offset, data, fua), fua)
}

fn put(file: &File, mut offset: u64, mut data: List, fua: bool) -> Result<(), Errno> {
    let flags = if fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    while !data.is_empty() {
        let pieces: Vec<IoSlice<'_>> = data.io_slices(PIECES_MAX).collect();
        match rustix::io::pwritev2(file, &pieces, offset, flags) {
            Ok(0) => return Err(Errno::IO),
            Ok(bytes) => {
                offset += bytes as u64;
                data.advance(bytes);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn sync_if(disk: &Opened, fua: bool) -> Result<Outcome, Error> {
    if fua {
        disk.flush()?;
    }
    Ok(Outcome::Done)
}

/// Deallocates a range. For block devices, the kernel issues a discard that leaves zeros.
fn trim(disk: &Opened, offset: u64, length: u64) -> Result<(), Error> {
    match punch(disk, offset, length) {
        // Trims are only hints.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(disk.failed(error)),
    }
}

fn punch(disk: &Opened, offset: u64, length: u64) -> Result<(), Errno> {
    allocate(disk, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
}

fn allocate(disk: &Opened, how: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(&disk.file, how, offset, length) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Zeroes a range: punches a hole or keeps it allocated, and writes zeros if the file system supports neither.
fn zero(disk: &Opened, pool: &Pool, offset: u64, length: u64, flags: Flags) -> Result<(), Error> {
    if length == 0 {
        return Ok(());
    }
    if !flags.no_hole {
        match punch(disk, offset, length) {
            Err(Errno::OPNOTSUPP) => {}
            other => return other.map_err(|error| disk.failed(error)),
        }
    }
    // The kernel may implement this on a block device by writing zeros.
    if !(flags.fast && disk.is_block_device) {
        let how = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        match allocate(disk, how, offset, length) {
            Err(Errno::OPNOTSUPP) => {}
            other => return other.map_err(|error| disk.failed(error)),
        }
    }
    if flags.fast {
        return Err(Error::Unsupported("make zeros faster than it writes them"));
    }
    let mut at = offset;
    while at < offset + length {
        let step = (offset + length - at).min(ZEROS_AT_A_TIME);
        write(disk, pool, at, zeros(step), false)?;
        at += step;
    }
    Ok(())
}

/// Returns the extents of data and holes; everything is data if the file system does not report holes. Fails if the
/// file is too short: `lseek` reports a hole after its end, which a copy would take for zeros.
fn status(disk: &Opened, offset: u64, length: u64) -> Result<Vec<StatusExtent>, Error> {
    let (mut runs, mut at, end) = (Vec::new(), offset, offset + length);
    while at < end && runs.len() + 2 <= StatusExtent::MOST {
        let data = match rustix::fs::seek(&disk.file, SeekFrom::Data(at)) {
            Ok(data) => data.clamp(at, end),
            // No data from `at` on.
            Err(Errno::NXIO) => end,
            Err(_) => at,
        };
        StatusExtent::append(&mut runs, data - at, BlockStatus::HOLE);
        if data >= end {
            break;
        }
        // A file always has a hole after its end.
        let hole = match rustix::fs::seek(&disk.file, SeekFrom::Hole(data)) {
            Ok(hole) if hole > data => hole.min(end),
            _ => end,
        };
        StatusExtent::append(&mut runs, hole - data, BlockStatus::DATA);
        at = hole;
    }
    let size = rustix::fs::fstat(&disk.file).map_err(|error| disk.failed(error))?.st_size as u64;
    if !disk.is_block_device && size < end {
        return Err(disk.became_shorter());
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::Operation;
    use crate::disk::Disk;
    use onego_block::{Error, Flags, Op};
    use onego_buf::{List, Pool};
    use rustix::io::Errno;

    fn run(disk: &Disk, op: Op, fua: bool) -> Result<(), Error> {
        let flags = Flags { fua, ..Flags::default() };
        Operation { offset: 0, op, flags }.run(disk.opened(), &Pool::new(1 << 20)).map(drop)
    }

    fn write() -> Op {
        Op::Write { data: List::from(vec![1; 512]) }
    }

    #[test]
    fn flushes_fail_after_a_failure_until_the_disk_is_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, [0; 8192]).unwrap();
        for first in [Op::Flush, Op::Trim { length: 4096 }, Op::Zero { length: 4096 }] {
            let disk = Disk::open(&path, false).unwrap();
            let other = disk.clone();
            run(&disk, write(), false).unwrap();
            *disk.opened().flushes.fault.lock().unwrap() = Some(Errno::IO);
            let text = run(&disk, first, true).unwrap_err().to_string();
            assert!(text.contains("a flush failed (Input/output error"), "{text}");
            for (op, fua) in [(Op::Flush, false), (write(), true), (Op::Zero { length: 512 }, true)] {
                run(&other, op, fua).expect_err("a flush that relies on lost data");
            }
            // These make no promise of durability.
            run(&other, write(), false).unwrap();
            run(&other, Op::Read { length: 512 }, false).unwrap();
        }
        let disk = Disk::open(&path, false).unwrap();
        run(&disk, Op::Flush, false).unwrap();
        run(&disk, write(), true).unwrap();
    }
}
