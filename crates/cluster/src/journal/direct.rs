//! A file that is written from front to back, past the page cache.
//!
//! An append that makes a file longer costs more than its bytes: the sync has to commit the new length and the new blocks
//! to the journal of the file system, and the page cache writes back page by page. So space is allocated ahead of the
//! bytes, and whole blocks go to the device (`O_DIRECT`): large payloads from the memory in which they were received,
//! everything else from one aligned buffer. On ext4, syncs of 8 MiB each take a sixth of the time that way, and syncs of
//! 512 KiB two thirds.
//!
//! Whatever follows the written bytes reads as zeros, or as what was there before where the file is an old one that is written
//! anew, until the file is finished.

use super::files::SPARES;
use super::record::BLOCK;
use onego_buf::{List, Pool, Segment, SegmentMut};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are copied before they go to the device: little enough to stay in the cache on the way.
const BUFFER: usize = 1 << 20;

/// Bytes that go to the device at a time. The system cuts them up and has all parts under way at once.
const BATCH: usize = 8 << 20;

/// Pieces that go to the device at a time: as many as the system takes.
const PIECES: usize = 1024;

/// Bytes that are allocated at a time: as many as there are, between these bounds. Each allocation costs a commit of the
/// file system's journal.
const ALLOCATE_MIN: u64 = 4 << 20;
const ALLOCATE_MAX: u64 = 64 << 20;

/// A sync of fewer bytes takes longer to mark allocated blocks as written, which is a commit of the file system's journal,
/// than to write them. So blocks are written ahead of these, as zeros, and marked once for many syncs.
const SMALL_SYNC: usize = 64 << 10;

/// Zeros that are written at a time.
const ZERO_AHEAD: usize = 1 << 20;

/// Time for which a file waits for space on a full disk: a checkpoint that is being written frees the logs before it.
const WAIT_FOR_SPACE: Duration = Duration::from_secs(30);
const LOOK_FOR_SPACE: Duration = Duration::from_millis(50);

/// Bytes that the system does not have yet.
#[derive(Debug)]
enum Piece {
    /// These of the buffer.
    Copied(Range<usize>),
    /// Where they were given: whole blocks, on the boundary of one.
    Shared(Segment),
}

/// A file that is written from front to back in whole blocks.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    path: PathBuf,
    /// Past the page cache, unless the file system cannot do that.
    direct: bool,
    /// Bytes that were copied, and how many there are.
    buffer: SegmentMut,
    copied: usize,
    /// None until they are needed.
    zeros: Option<SegmentMut>,
    /// What the system does not have yet, and how many bytes that is.
    pieces: Vec<Piece>,
    filled: usize,
    /// Where in the file they go: a multiple of [`BLOCK`].
    offset: u64,
    /// Zeros before that, which were added to fill the last block.
    padding: usize,
    /// Bytes of the file that have space on the device.
    allocated: u64,
    /// Bytes of the file whose blocks were written before, and need no commit to be written again.
    initialized: u64,
    /// The next write ends in a sync.
    syncs: bool,
}

impl DirectFile {
    /// Makes an empty file, also if there is one of that name. Only its owner may read it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, File::options().write(true).create(true).truncate(true).mode(0o600), 0)
    }

    /// Writes a file that is there anew, from the front, into the space that it has.
    pub(crate) fn reuse(path: &Path) -> io::Result<Self> {
        let allocated = path.metadata()?.len();
        Self::open(path, File::options().write(true), allocated)
    }

    fn open(path: &Path, options: &mut OpenOptions, allocated: u64) -> io::Result<Self> {
        let mut open = |flags: OFlags| options.custom_flags(flags.bits() as i32).open(path);
        let (file, direct) = match open(OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                (open(OFlags::empty())?, false)
            }
            file => (file?, true),
        };
        // A block of its own: aligned as devices want it.
        let buffer = Pool::new(0).get(BUFFER);
        let (pieces, copied, filled) = (Vec::new(), 0, 0);
        let path = path.to_owned();
        Ok(Self {
            file,
            path,
            direct,
            buffer,
            copied,
            zeros: None,
            pieces,
            filled,
            offset: 0,
            padding: 0,
            allocated,
            initialized: allocated,
            syncs: false,
        })
    }

    /// Writes bytes: whole blocks on the boundary of one from where they are, others from a copy.
    pub(crate) fn append(&mut self, bytes: &List) -> io::Result<()> {
        for segment in bytes.segments() {
            let mut rest = &segment[..];
            if self.filled.is_multiple_of(BLOCK) && segment.as_ptr().addr().is_multiple_of(BLOCK) {
                let whole = segment.len() - segment.len() % BLOCK;
                if whole > 0 {
                    self.make_room()?;
                    self.pieces.push(Piece::Shared(segment.slice(..whole)));
                    self.filled += whole;
                    rest = &segment[whole..];
                }
            }
            self.write_all(rest)?;
        }
        Ok(())
    }

    /// Makes durable what was written, with zeros up to the end of the block.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.syncs = true;
        let flushed = self.flush();
        self.syncs = false;
        flushed?;
        self.file.sync_data()
    }

    /// Makes durable what was written, and that nothing follows it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.set_len(self.offset - self.padding as u64)?;
        self.file.sync_all()
    }

    /// Returns whether the file has space for more records than are in flight, and allocates it if it can. What a full disk
    /// refuses then is no failure yet: deletions and new maps still fit.
    pub(crate) fn has_reserve(&mut self) -> bool {
        let used = self.offset + self.filled as u64;
        let reserve = used.clamp(ALLOCATE_MIN, ALLOCATE_MAX);
        // Half of it, so that not every record allocates.
        self.allocated >= used + reserve / 2 || self.grow(reserve).unwrap_or(true)
    }

    /// Sees to it that there is room for another piece. What is not whole blocks stays where it is and grows.
    fn make_room(&mut self) -> io::Result<()> {
        let is_full = self.filled >= BATCH || self.copied == BUFFER || self.pieces.len() == PIECES;
        if is_full && self.filled.is_multiple_of(BLOCK) { self.write_out() } else { Ok(()) }
    }

    /// Takes the next bytes of the buffer.
    fn take(&mut self, len: usize) {
        let taken = self.copied..self.copied + len;
        self.copied = taken.end;
        self.filled += len;
        match self.pieces.last_mut() {
            Some(Piece::Copied(last)) => last.end = taken.end,
            _ => self.pieces.push(Piece::Copied(taken)),
        }
    }

    /// Gives all pieces to the system: whole blocks.
    fn write_out(&mut self) -> io::Result<()> {
        let end = self.offset + self.filled as u64;
        self.allocate(end)?;
        if self.syncs && self.filled <= SMALL_SYNC && end > self.initialized {
            self.write_zeros(end)?;
        }
        let slices = self.pieces.iter().map(|piece| match piece {
            Piece::Copied(range) => IoSlice::new(&self.buffer[range.clone()]),
            Piece::Shared(segment) => IoSlice::new(segment),
        });
        let mut slices: Vec<IoSlice<'_>> = slices.collect();
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            match rustix::io::pwritev(&self.file, slices, self.offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.offset += written as u64;
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(Errno::INTR) => {}
                // The file system opens files so, but does not write them so.
                Err(Errno::INVAL) if self.direct => {
                    let flags = rustix::fs::fcntl_getfl(&self.file)?;
                    rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
                    self.direct = false;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.initialized = self.initialized.max(self.offset);
        self.pieces.clear();
        (self.copied, self.filled, self.padding) = (0, 0, 0);
        Ok(())
    }

    /// Writes zeros from `end` on, as far as there is space.
    fn write_zeros(&mut self, end: u64) -> io::Result<()> {
        let zeros = self.zeros.get_or_insert_with(|| {
            let mut zeros = Pool::new(0).get(ZERO_AHEAD);
            zeros.fill(0);
            zeros
        });
        let mut at = end;
        let until = self.allocated.min(end + ZERO_AHEAD as u64);
        let until = until - until % BLOCK as u64;
        while at < until {
            match rustix::io::pwrite(&self.file, &zeros[..(until - at) as usize], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => at += written as u64,
                Err(Errno::INTR) => {}
                // The write that follows finds out what the file system takes.
                Err(Errno::INVAL) if self.direct => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.initialized = at;
        Ok(())
    }

    /// Allocates space up to `end`, before anything is written there: what a full disk refuses can be tried again. Other
    /// failures are left to the write.
    fn allocate(&mut self, end: u64) -> io::Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        let least = end - self.allocated;
        let more = least.max(self.allocated.clamp(ALLOCATE_MIN, ALLOCATE_MAX));
        let deadline = Instant::now() + WAIT_FOR_SPACE;
        let mut has_waited = false;
        loop {
            match self.grow(more).and_then(|grown| if grown { Ok(true) } else { self.grow(least) }) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(_) => {
                    self.allocated = end;
                    return Ok(());
                }
            }
            if Instant::now() >= deadline {
                let path = self.path.display();
                let text =
                    format!("no space for {least} more bytes in {path}: free space on its file system");
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
            if !std::mem::replace(&mut has_waited, true) {
                let path = self.path.display();
                tracing::warn!(%path, bytes = least, "the disk is full: writes wait for space");
            }
            std::thread::sleep(LOOK_FOR_SPACE);
        }
    }

    /// Allocates `bytes` more, out of the spare files if need be. Returns false where the disk is full.
    fn grow(&mut self, bytes: u64) -> Result<bool, Errno> {
        loop {
            match self.fallocate(bytes) {
                Ok(()) => {
                    self.allocated += bytes;
                    return Ok(true);
                }
                Err(Errno::NOSPC | Errno::DQUOT) if self.remove_spares() => {}
                Err(Errno::NOSPC | Errno::DQUOT) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the files in this folder that are only kept to be written again. Returns whether there was one.
    fn remove_spares(&self) -> bool {
        let removed = SPARES.map(|spare| std::fs::remove_file(self.path.with_file_name(spare)).is_ok());
        removed.contains(&true)
    }

    fn fallocate(&self, bytes: u64) -> Result<(), Errno> {
        #[cfg(test)]
        if tests::IS_FULL.get()(&self.path) {
            return Err(Errno::NOSPC);
        }
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), self.allocated, bytes)
    }
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.make_room()?;
        let taken = bytes.len().min(BUFFER - self.copied);
        self.buffer[self.copied..self.copied + taken].copy_from_slice(&bytes[..taken]);
        self.take(taken);
        Ok(taken)
    }

    /// Gives everything to the system, with zeros up to the end of the block.
    fn flush(&mut self) -> io::Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let padding = self.filled.next_multiple_of(BLOCK) - self.filled;
        if padding > 0 {
            self.buffer[self.copied..self.copied + padding].fill(0);
            self.take(padding);
        }
        self.write_out()?;
        self.padding = padding;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::files::{SPARE_CHECKPOINT, SPARE_LOG};
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        /// Whether an allocation in a file of this path finds the disk full.
        pub(super) static IS_FULL: Cell<fn(&Path) -> bool> = const { Cell::new(|_| false) };
        static TRIES: Cell<u32> = const { Cell::new(0) };
    }

    /// What a file has behind `len` bytes, if those are what was written.
    fn behind(path: &Path, written: &[u8]) -> Vec<u8> {
        let mut found = std::fs::read(path).unwrap();
        let rest = found.split_off(written.len());
        assert!(found == written);
        rest
    }

    /// `len` bytes, which begin `from` bytes behind a page boundary.
    fn segment(byte: u8, len: usize, from: usize) -> Segment {
        let mut memory = Pool::new(0).get(from + len);
        memory.fill(byte);
        Segment::from(memory).slice(from..)
    }

    fn part() -> impl Strategy<Value = (usize, usize, bool)> {
        let len = prop_oneof![0..3 * BUFFER / 2, (0..700_usize).prop_map(|blocks| blocks * BLOCK)];
        (len, prop_oneof![Just(0), Just(BLOCK), 1..BLOCK], any::<bool>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_written_is_there_with_zeros_up_to_blocks(parts in prop::collection::vec(part(), 1..12)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let mut file = DirectFile::create(&path).unwrap();
            let (mut written, mut end) = (Vec::new(), 0);
            for (at, (len, from, sync)) in (1..).zip(parts) {
                file.append(&segment(at, len, from).into()).unwrap();
                written.extend(vec![at; len]);
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
    fn more_pieces_than_the_system_takes_at_a_time_are_all_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = DirectFile::create(&path).unwrap();
        let (mut list, mut written) = (List::new(), Vec::new());
        for byte in (0..=u8::MAX).cycle().take(2 * PIECES + 100) {
            list.push(segment(byte, BLOCK, 0));
            written.extend([byte; BLOCK]);
        }
        file.append(&list).unwrap();
        assert!(file.pieces.iter().all(|piece| matches!(piece, Piece::Shared(_))), "nothing is copied");
        file.finish().unwrap();
        assert!(behind(&path, &written).is_empty());
    }

    #[test]
    fn an_old_file_is_written_anew_and_has_nothing_of_its_past_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = DirectFile::create(&path).unwrap();
        file.write_all(&[1; 5 * BLOCK + 7]).unwrap();
        file.finish().unwrap();
        let mut file = DirectFile::reuse(&path).unwrap();
        file.write_all(&[2; BLOCK + 9]).unwrap();
        file.sync().unwrap();
        let rest = behind(&path, &[2; BLOCK + 9]);
        assert_eq!(rest, [vec![0; BLOCK - 9], vec![1; 3 * BLOCK + 7]].concat());
        file.finish().unwrap();
        assert!(behind(&path, &[2; BLOCK + 9]).is_empty());
        // Longer than it was.
        let mut file = DirectFile::reuse(&path).unwrap();
        file.write_all(&[3; 3 * BLOCK]).unwrap();
        file.finish().unwrap();
        assert!(behind(&path, &[3; 3 * BLOCK]).is_empty());
    }

    #[test]
    fn small_syncs_find_blocks_that_were_written_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = DirectFile::create(&path).unwrap();
        file.write_all(&[1; 2 * SMALL_SYNC]).unwrap();
        file.sync().unwrap();
        assert_eq!(file.initialized, 2 * SMALL_SYNC as u64, "a large sync writes nothing twice");
        let mut commits = 0;
        for _ in 0..1000 {
            let before = file.initialized;
            file.write_all(&[2; BLOCK + 1]).unwrap();
            file.sync().unwrap();
            assert!(file.initialized >= file.offset);
            commits += usize::from(file.initialized > before);
        }
        // 8 MiB, 1 MiB at a time; and one for each end of what is allocated.
        assert!((8..=12).contains(&commits), "{commits} of 1,000 syncs mark blocks as written");
        file.finish().unwrap();
        drop(file);
        let mut again = DirectFile::reuse(&path).unwrap();
        let len = again.initialized;
        again.write_all(&[3; BLOCK]).unwrap();
        again.sync().unwrap();
        assert_eq!(again.initialized, len, "all of its blocks were written");
    }

    #[test]
    fn a_full_disk_takes_the_spare_files_and_then_makes_writes_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for spare in [SPARE_LOG, SPARE_CHECKPOINT] {
            std::fs::write(folder.path().join(spare), "old").unwrap();
        }
        IS_FULL.set(|path| path.with_file_name(SPARE_LOG).exists());
        let mut file = DirectFile::create(&path).unwrap();
        file.write_all(&[1; 9000]).unwrap();
        file.sync().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the spare files are gone");
        // Another program frees space.
        IS_FULL.set(|_| TRIES.replace(TRIES.get() + 1) < 5);
        file.write_all(&vec![2; 2 * ALLOCATE_MIN as usize]).unwrap();
        file.sync().unwrap();
        assert!(TRIES.get() > 5, "{} tries", TRIES.get());
        let written = [vec![1; 9000], vec![0; 3 * BLOCK - 9000], vec![2; 2 * ALLOCATE_MIN as usize]].concat();
        assert!(behind(&path, &written).iter().all(|byte| *byte == 0));
        IS_FULL.set(|_| false);
    }

    #[test]
    fn a_file_keeps_a_reserve_and_says_when_it_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = DirectFile::create(&folder.path().join("log")).unwrap();
        assert!(file.has_reserve());
        let allocated = file.allocated;
        IS_FULL.set(|_| true);
        assert!(file.has_reserve(), "what it has is enough");
        let bytes = segment(1, 3 << 20, 0);
        file.append(&bytes.into()).unwrap();
        file.sync().unwrap();
        assert!(!file.has_reserve());
        assert_eq!(file.allocated, allocated, "and the reserve is there");
        IS_FULL.set(|_| false);
        assert!(file.has_reserve() && file.allocated > allocated);
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
