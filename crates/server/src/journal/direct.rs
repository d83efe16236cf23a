//! A file that is written from front to back, past the page cache.
//!
//! An append that makes a file longer costs more than its bytes: the sync has to commit the new length and the new blocks
//! to the journal of the file system, and the page cache writes back page by page. So space is allocated ahead of the
//! bytes, and whole blocks go to the device from one aligned buffer (`O_DIRECT`). On ext4, syncs of 8 MiB each take a
//! sixth of the time that way, and syncs of 512 KiB two thirds.
//!
//! Whatever follows the written bytes reads as zeros, until the file is finished.

use super::record::BLOCK;
use onego_buf::{Pool, SegmentMut};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Bytes that go to the device at a time: enough to keep it busy, little enough to stay in the cache on the way.
const BUFFER: usize = 1 << 20;

/// Bytes that are allocated at a time: as many as there are, between these bounds. Each allocation costs a commit of the
/// file system's journal.
const ALLOCATE_MIN: u64 = 4 << 20;
const ALLOCATE_MAX: u64 = 64 << 20;

/// A file that is written from front to back in whole blocks.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    /// Past the page cache, unless the file system cannot do that.
    direct: bool,
    /// Bytes that the system does not have yet, and how many there are.
    buffer: SegmentMut,
    filled: usize,
    /// Where in the file they go: a multiple of [`BLOCK`].
    offset: u64,
    /// Zeros before that, which were added to fill the last block.
    padding: usize,
    /// Bytes of the file that have space on the device.
    allocated: u64,
}

impl DirectFile {
    /// Makes an empty file, also if there is one of that name. Only its owner may read it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let mut options = File::options();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            options.custom_flags(flags.bits() as i32).open(path)
        };
        let (file, direct) = match open(OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                (open(OFlags::empty())?, false)
            }
            file => (file?, true),
        };
        // A block of its own: aligned as devices want it.
        let buffer = Pool::new(0).get(BUFFER);
        Ok(Self { file, direct, buffer, filled: 0, offset: 0, padding: 0, allocated: 0 })
    }

    /// Makes durable what was written, with zeros up to the end of the block.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_data()
    }

    /// Makes durable what was written, and that nothing follows it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.set_len(self.offset - self.padding as u64)?;
        self.file.sync_all()
    }

    /// Gives the first bytes of the buffer to the system: whole blocks.
    fn write_out(&mut self) -> io::Result<()> {
        self.allocate(self.offset + self.filled as u64);
        let written = self.file.write_all_at(&self.buffer[..self.filled], self.offset);
        match written {
            // The file system opens files so, but does not write them so.
            Err(error) if self.direct && error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                let flags = rustix::fs::fcntl_getfl(&self.file)?;
                rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
                self.direct = false;
                self.file.write_all_at(&self.buffer[..self.filled], self.offset)?;
            }
            written => written?,
        }
        self.offset += self.filled as u64;
        (self.filled, self.padding) = (0, 0);
        Ok(())
    }

    /// Sees to it that the file has space up to `end`. If that fails, the write says whether it matters.
    fn allocate(&mut self, end: u64) {
        if end <= self.allocated {
            return;
        }
        let more = (end - self.allocated).max(self.allocated.clamp(ALLOCATE_MIN, ALLOCATE_MAX));
        let result = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), self.allocated, more);
        self.allocated = if result.is_ok() { self.allocated + more } else { end };
    }
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BUFFER - self.filled);
        self.buffer[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        if self.filled == BUFFER {
            self.write_out()?;
        }
        Ok(taken)
    }

    /// Gives everything to the system, with zeros up to the end of the block.
    fn flush(&mut self) -> io::Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let end = self.filled.next_multiple_of(BLOCK);
        let padding = end - self.filled;
        self.buffer[self.filled..end].fill(0);
        self.filled = end;
        self.write_out()?;
        self.padding = padding;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a file has behind `len` bytes, if those are what was written.
    fn behind(path: &Path, written: &[u8]) -> Vec<u8> {
        let mut found = std::fs::read(path).unwrap();
        let rest = found.split_off(written.len());
        assert!(found == written);
        rest
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_written_is_there_with_zeros_up_to_blocks(
            parts in prop::collection::vec((0..3 * BUFFER / 2, any::<bool>()), 1..6)
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let mut file = DirectFile::create(&path).unwrap();
            let (mut written, mut end) = (Vec::new(), 0);
            for (at, (len, sync)) in (1..).zip(parts) {
                let part = vec![at; len];
                file.write_all(&part).unwrap();
                written.extend(part);
                end = if len > 0 { written.len() } else { end };
                if sync {
                    file.sync().unwrap();
                    written.resize(written.len().next_multiple_of(BLOCK), 0);
                    prop_assert!(behind(&path, &written).iter().all(|byte| *byte == 0));
                }
            }
            file.finish().unwrap();
            let rest = behind(&path, &written[..end]);
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_file_that_was_there_is_begun_anew_and_nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [&[1; 9000][..], &[2; 10]] {
            let mut file = DirectFile::create(&path).unwrap();
            file.write_all(bytes).unwrap();
            file.finish().unwrap();
            assert!(behind(&path, bytes).is_empty());
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
