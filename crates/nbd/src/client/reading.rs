//! A read whose bytes come in pieces.

use super::error::ClientError;
use onego_block::Outcome;
use onego_buf::{List, Pool, SegmentMut};
use std::ops::Range;

/// Runs of bytes that have come before those in front of them. Servers cut a read where their holes begin and end, and send
/// the parts in whatever order.
const RUNS_MAX: usize = 1024;

/// The bytes of a read, as far as they have come.
#[derive(Debug)]
pub(super) struct Reading {
    length: usize,
    bytes: Bytes,
    /// The caller gave a buffer, and gets it back.
    into: bool,
    /// Runs that have come, in order, none of which touch.
    runs: Vec<Range<usize>>,
}

#[derive(Debug)]
enum Bytes {
    /// Nothing has come, or the buffer is out for a receive.
    None,
    Buffer(SegmentMut),
    /// All of it came in one piece of shared memory.
    List(List),
}

impl Reading {
    pub(super) fn new(length: usize) -> Self {
        Self { length, bytes: Bytes::None, into: false, runs: Vec::new() }
    }

    pub(super) fn into_buffer(buffer: SegmentMut) -> Self {
        Self { length: buffer.len(), bytes: Bytes::Buffer(buffer), into: true, runs: Vec::new() }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Has the caller given no buffer, and nothing come yet?
    pub(super) fn takes_list(&self) -> bool {
        !self.into && self.runs.is_empty()
    }

    /// Everything is asked for again: what has come does not count.
    pub(super) fn restart(&mut self) {
        self.runs.clear();
        if let Bytes::List(_) = self.bytes {
            self.bytes = Bytes::None;
        }
    }

    /// Bytes are announced: they must be some of the read, and none that have come.
    pub(super) fn claim(&mut self, bytes: Range<usize>) -> Result<(), ClientError> {
        if bytes.is_empty() || bytes.end > self.length {
            return Err(ClientError::Protocol("it sends bytes that were not asked for"));
        }
        let at = self.runs.partition_point(|run| run.end < bytes.start);
        if self.runs.get(at).is_some_and(|run| run.start < bytes.end && bytes.start < run.end) {
            return Err(ClientError::Protocol("it sends bytes of a read twice"));
        }
        // The run at `at` ends where the bytes begin, or begins behind them.
        let joins_front = self.runs.get(at).is_some_and(|run| run.end == bytes.start);
        let next = at + usize::from(joins_front);
        if self.runs.get(next).is_some_and(|run| run.start < bytes.end) {
            return Err(ClientError::Protocol("it sends bytes of a read twice"));
        }
        let joins_back = self.runs.get(next).is_some_and(|run| run.start == bytes.end);
        match (joins_front, joins_back) {
            (true, true) => {
                self.runs[at].end = self.runs[next].end;
                self.runs.remove(next);
            }
            (true, false) => self.runs[at].end = bytes.end,
            (false, true) => self.runs[next].start = bytes.start,
            (false, false) => self.runs.insert(at, bytes),
        }
        match self.runs.len() > RUNS_MAX {
            true => Err(ClientError::Protocol("it sends a read in too many pieces")),
            false => Ok(()),
        }
    }

    /// The buffer, for a receive. It comes back by [`put_back`](Self::put_back).
    pub(super) fn take(&mut self, pool: &Pool) -> SegmentMut {
        match std::mem::replace(&mut self.bytes, Bytes::None) {
            Bytes::Buffer(buffer) => buffer,
            Bytes::None | Bytes::List(_) => pool.get(self.length),
        }
    }

    pub(super) fn put_back(&mut self, buffer: SegmentMut) {
        self.bytes = Bytes::Buffer(buffer);
    }

    /// All the bytes, in shared memory.
    pub(super) fn put_list(&mut self, list: List) {
        self.bytes = Bytes::List(list);
    }

    /// Some of the bytes are zeros.
    pub(super) fn put_zeros(&mut self, bytes: Range<usize>, pool: &Pool) {
        let mut buffer = self.take(pool);
        buffer[bytes].fill(0);
        self.put_back(buffer);
    }

    /// All bytes, if all have come.
    pub(super) fn finish(self) -> Result<Outcome, ClientError> {
        let is_whole = self.runs.len() == 1 && self.runs[0] == (0..self.length);
        if !is_whole && self.length > 0 {
            return Err(ClientError::Protocol("it ends a read of which bytes are missing"));
        }
        Ok(match self.bytes {
            Bytes::Buffer(buffer) if self.into => Outcome::Filled(buffer),
            Bytes::Buffer(buffer) => Outcome::Data(buffer.into()),
            Bytes::List(list) => Outcome::Data(list),
            Bytes::None => Outcome::Data(List::new()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_are_a_read_once_there_is_no_gap() {
        let mut reading = Reading::new(100);
        for piece in [50..60, 0..10, 60..100, 10..30] {
            reading.claim(piece.clone()).unwrap();
            reading.put_zeros(piece, &Pool::new(0));
        }
        assert_eq!(reading.runs, [0..30, 50..100]);
        reading.claim(30..50).unwrap();
        reading.put_zeros(30..50, &Pool::new(0));
        assert!(matches!(reading.finish().unwrap(), Outcome::Data(data) if data.to_vec() == [0; 100]));
    }

    #[test]
    fn bytes_that_come_twice_or_were_not_asked_for_break_the_protocol() {
        let mut reading = Reading::new(100);
        reading.claim(10..20).unwrap();
        reading.claim(30..40).unwrap();
        for piece in [0..11, 10..20, 12..13, 19..30, 5..50, 15..35, 39..41, 90..101, 50..50, 200..300] {
            reading.claim(piece.clone()).unwrap_err();
        }
        assert_eq!(reading.runs, [10..20, 30..40]);
        reading.finish().unwrap_err();
    }

    #[test]
    fn a_read_in_too_many_pieces_is_refused() {
        let mut reading = Reading::new(1 << 20);
        let mut claims = (0..1 << 19).map(|n| reading.claim(2 * n..2 * n + 1));
        assert_eq!(claims.position(|claim| claim.is_err()), Some(RUNS_MAX));
    }
}
