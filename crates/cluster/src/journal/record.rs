//! Records: how everything is framed in the files of a data directory, and what is left of them after a crash.
//!
//! ```text
//! u32 length of the body    u32 CRC-32C of all that follows and of the length
//! u64 sequence number       u64 sequence number of a record that was durable when this one was made
//! body
//! ```
//!
//! A log adds a random number, its *salt*, to both sequence numbers. The salt is part of the file's name ([`LogId`]); no
//! client ever sees it. So no bytes that a client stores can pass for a record, wherever they end up in a file.
//!
//! In a body, zeros may stand before the bytes of objects if those are many ([`Body::is_aligned`]), so that they begin with a
//! [`BLOCK`] of the file and can be written from the memory in which they were received.
//!
//! Behind a record there may be zeros up to the end of a [`BLOCK`], because files are written in whole blocks. Behind the last
//! record there may be more of them, because space is allocated ahead, and the content of an older log, into whose file this
//! one is written: records with another salt or lower numbers, and payload.
//!
//! A crash may keep any part of what was not made durable, in any order: of two such records the second may be whole
//! and the first not. So a record that is damaged is the torn end of a log, and nothing but that, unless a later record
//! says that it was durable: then it was damaged afterwards, and what it said was acknowledged. A sync ends a block, so a
//! record made after that sync belongs to a run of records that begins with a later block: only these are looked at.
//!
//! [`LogId`]: super::files::LogId

use crate::osd::Body;
use onego_buf::{List, Segment, crc32c};
use std::io::{self, Read};

/// Files are written in whole blocks: what is durable is never written again together with what is not.
pub const BLOCK: usize = 4096;

/// Bytes of a record before its body.
pub(crate) const HEADER: usize = 24;

/// Bytes that may be written behind a record before one says that it is durable: several times what a cluster takes in before it
/// waits for the disk.
const MOST_UNKNOWN: u64 = 256 << 20;

/// Zeros, to be added up to the end of a block.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Zeros between an offset and the end of its block.
pub(crate) fn zeros_behind(offset: u64) -> &'static [u8] {
    let used = (offset % BLOCK as u64) as usize;
    if used == 0 { &[] } else { &ZEROS[used..] }
}

/// A record that is to be written at this offset of a file with this salt: its front, with room for the header, and the bytes of objects behind it.
pub(crate) fn seal(sequence: u64, durable: u64, salt: u64, offset: u64, mut body: Body) -> List {
    if body.is_aligned() {
        body.align(zeros_behind(offset + body.front.len() as u64));
    }
    let Body { mut front, payload } = body;
    let len = u32::try_from(front.len() - HEADER + payload.len()).expect("a request has far less than 4 GiB");
    let header = &mut front.as_mut_slice()[..HEADER];
    header[..4].copy_from_slice(&len.to_le_bytes());
    header[8..16].copy_from_slice(&sequence.wrapping_add(salt).to_le_bytes());
    header[16..24].copy_from_slice(&durable.wrapping_add(salt).to_le_bytes());
    let crc = payload.crc32c(checksum(front.as_slice()));
    front.as_mut_slice()[4..8].copy_from_slice(&crc.to_le_bytes());
    let mut record = List::from(front.into_vec());
    record.append(payload);
    record
}

/// The checksum of a record, or of the beginning of one.
fn checksum(record: &[u8]) -> u32 {
    let len = crc32c(u32::MAX, &record[..4]);
    crc32c(len, &record[8..])
}

/// What stands before a record's body.
#[derive(Clone, Copy)]
struct Header {
    len: u64,
    crc: u32,
    sequence: u64,
    durable: u64,
}

impl Header {
    fn of(bytes: &[u8], salt: u64) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (durable, _) = rest.split_first_chunk::<8>()?;
        Some(Self {
            len: u32::from_le_bytes(*len).into(),
            crc: u32::from_le_bytes(*crc),
            sequence: u64::from_le_bytes(*sequence).wrapping_sub(salt),
            durable: u64::from_le_bytes(*durable).wrapping_sub(salt),
        })
    }
}

/// A record that was read.
pub(crate) struct Record {
    /// Where in its file it begins.
    pub(crate) offset: u64,
    pub(crate) body: Segment,
}

/// What comes next in a file.
pub(crate) enum Next {
    Record(Record),
    /// Nothing.
    End,
    /// Something at this offset that is not the record that should follow.
    Damage(u64),
}

/// Reads the records of a file, front to back.
pub(crate) struct Records<R> {
    file: R,
    /// Bytes of the file, and those that are read.
    len: u64,
    offset: u64,
    salt: u64,
    /// The number that the next record must have.
    sequence: u64,
    /// What was read of a record that is damaged.
    damaged: Vec<u8>,
}

impl<R: Read> Records<R> {
    /// The records of a file of `len` bytes with this salt, the first of which has this number.
    pub(crate) fn new(file: R, len: u64, salt: u64, sequence: u64) -> Self {
        Self { file, len, offset: 0, salt, sequence, damaged: Vec::new() }
    }

    /// The number that the record behind the last one has.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn next(&mut self) -> io::Result<Next> {
        let mut read = self.take_more(Vec::new(), HEADER.min(self.left_of_block()))?;
        if !read.is_empty() && !self.offset.is_multiple_of(BLOCK as u64) && is_zero(&read) {
            read = self.take_more(read, self.left_of_block())?;
            if !is_zero(&read) || read.len() < self.left_of_block() {
                return Ok(self.damage(read));
            }
            self.offset += read.len() as u64;
            read.clear();
        }
        let mut read = self.take_more(read, HEADER)?;
        if read.is_empty() {
            return Ok(Next::End);
        }
        let left = self.len - self.offset;
        let header = Header::of(&read, self.salt);
        // No memory is taken for more than there is.
        let fits = |header: &Header| header.sequence == self.sequence && header.len <= left - HEADER as u64;
        let Some(header) = header.filter(fits) else { return Ok(self.damage(read)) };
        let mut body = vec![0; header.len as usize];
        self.file.read_exact(&mut body)?;
        if crc32c(checksum(&read), &body) != header.crc {
            read.append(&mut body);
            return Ok(self.damage(read));
        }
        let offset = self.offset;
        self.offset += HEADER as u64 + header.len;
        self.sequence += 1;
        Ok(Next::Record(Record { offset, body: body.into() }))
    }

    /// Bytes up to the end of the block.
    fn left_of_block(&self) -> usize {
        BLOCK - (self.offset % BLOCK as u64) as usize
    }

    /// Reads on until `read` has `len` bytes, or the file ends.
    fn take_more(&mut self, mut read: Vec<u8>, len: usize) -> io::Result<Vec<u8>> {
        let had = read.len();
        let len = (self.len - self.offset).min(len as u64) as usize;
        read.resize(len.max(had), 0);
        self.file.read_exact(&mut read[had..])?;
        Ok(read)
    }

    fn damage(&mut self, read: Vec<u8>) -> Next {
        self.damaged = read;
        Next::Damage(self.offset)
    }

    /// After [`Next::Damage`]: does a later record say that the damaged one was durable?
    ///
    /// Takes time in proportion to what follows: each block is looked at once, and each record is checked once.
    pub(crate) fn was_durable(mut self) -> io::Result<bool> {
        let mut rest = std::mem::take(&mut self.damaged);
        self.file.by_ref().take(MOST_UNKNOWN).read_to_end(&mut rest)?;
        let mut at = self.left_of_block();
        while at < rest.len() {
            match self.later(&rest, at) {
                Some(header) if header.durable >= self.sequence => return Ok(true),
                Some(header) => at += HEADER + header.len as usize,
                None => at += BLOCK - (self.offset as usize + at) % BLOCK,
            }
        }
        Ok(false)
    }

    /// The header of a later record that begins at `at` and is whole.
    fn later(&self, rest: &[u8], at: usize) -> Option<Header> {
        let header = Header::of(&rest[at..], self.salt)?;
        let most = self.sequence + rest.len() as u64 / HEADER as u64;
        let is_later = (self.sequence + 1..=most).contains(&header.sequence);
        if !is_later || header.durable >= header.sequence {
            return None;
        }
        let record = rest[at..].get(..HEADER.checked_add(usize::try_from(header.len).ok()?)?)?;
        (checksum(record) == header.crc).then_some(header)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_wire::Writer;
    use proptest::prelude::*;
    use std::ops::Range;

    const SALT: u64 = u64::MAX - 3;

    fn record(sequence: u64, durable: u64, body: &[u8]) -> Vec<u8> {
        let mut front = Writer::new();
        front.put(&[0; HEADER]);
        let (head, tail) = body.split_at(body.len() / 2);
        front.put(head);
        seal(sequence, durable, SALT, 0, Body { front, payload: tail.to_vec().into() }).to_vec()
    }

    /// The bodies that are read, and what comes behind them: nothing, or damage that is known to be such or not.
    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<(u64, bool)>) {
        let mut records = Records::new(bytes, bytes.len() as u64, SALT, 1);
        let mut bodies = Vec::new();
        loop {
            match records.next().unwrap() {
                Next::Record(record) => bodies.push(record.body.to_vec()),
                Next::End => return (bodies, None),
                Next::Damage(offset) => return (bodies, Some((offset, records.was_durable().unwrap()))),
            }
        }
    }

    fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..8)
    }

    /// Records of which each knows that those were durable that are `lag` before it, and where they are. Each begins with a
    /// block, as if all had been synced.
    fn log(bodies: &[Vec<u8>], lag: u64) -> (Vec<u8>, Vec<Range<usize>>) {
        let (mut log, mut places) = (Vec::new(), Vec::new());
        for (sequence, body) in (1..).zip(bodies) {
            log.extend(zeros_behind(log.len() as u64));
            let start = log.len();
            log.extend(record(sequence, sequence.saturating_sub(lag), body));
            places.push(start..log.len());
        }
        (log, places)
    }

    proptest! {
        #[test]
        fn a_log_that_is_cut_anywhere_gives_the_records_before(bodies in bodies()) {
            let (log, places) = log(&bodies, 1);
            for (whole, place) in places.iter().enumerate() {
                for cut in place.clone() {
                    let torn = (cut > place.start).then_some((place.start as u64, false));
                    prop_assert_eq!(read(&log[..cut]), (bodies[..whole].to_vec(), torn));
                }
            }
            prop_assert_eq!(read(&log), (bodies, None));
        }

        #[test]
        fn a_bit_that_flips_is_found_and_told_from_a_torn_end(
            bodies in bodies(), lag in 1..4_u64, at in any::<prop::sample::Index>(), bit in 0..8
        ) {
            let (mut log, places) = log(&bodies, lag);
            let offsets: Vec<usize> = places.iter().cloned().flatten().collect();
            let at = *at.get(&offsets);
            log[at] ^= 1_u8 << bit;
            let hit = places.iter().filter(|place| place.end <= at).count();
            // The record behind the last that is whole says how many before it were durable.
            let known = (hit as u64 + 1) + lag <= bodies.len() as u64;
            prop_assert_eq!(read(&log), (bodies[..hit].to_vec(), Some((places[hit].start as u64, known))));
        }

        #[test]
        fn no_bytes_are_a_record_by_chance(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(read(&bytes).0, Vec::<Vec<u8>>::new());
        }
    }

    #[test]
    fn zeros_up_to_the_end_of_a_block_are_passed_over() {
        // The record ends `left` bytes before its block does.
        for left in [0, 1, HEADER - 1, HEADER, HEADER + 1, 1000] {
            let first = vec![7; BLOCK - HEADER - left];
            let mut log = record(1, 0, &first);
            log.resize(BLOCK, 0);
            log.extend(record(2, 0, b"second"));
            let second_end = log.len();
            assert_eq!(read(&log), (vec![first.clone(), b"second".to_vec()], None), "{left}");
            log.resize(2 * BLOCK, 0);
            assert_eq!(read(&log), (vec![first.clone(), b"second".to_vec()], None), "{left}");
            // Space that was allocated ahead, and a record behind a block that was lost.
            log.resize(5 * BLOCK, 0);
            let bodies = vec![first.clone(), b"second".to_vec()];
            assert_eq!(read(&log), (bodies.clone(), Some((2 * BLOCK as u64, false))), "{left}");
            log.extend(record(4, 3, b"later"));
            assert_eq!(read(&log), (bodies, Some((2 * BLOCK as u64, true))), "{left}");
            log[second_end] = 1;
            assert!(matches!(read(&log), (_, Some((offset, true))) if offset == second_end as u64), "{left}");
        }
    }

    #[test]
    fn zeros_and_records_of_another_place_are_no_records() {
        assert_eq!(read(&[0; 100]), (Vec::new(), Some((0, false))));
        let mut later = vec![1; BLOCK];
        assert_eq!(read(&later), (Vec::new(), Some((0, false))));
        later.extend(record(2, 1, b"later"));
        assert_eq!(read(&later), (Vec::new(), Some((0, true))));
        assert_eq!(read(&record(0, 0, b"earlier")), (Vec::new(), Some((0, false))));
    }
}
