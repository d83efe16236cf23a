//! Reads whose data arrives in pieces.

use super::error::ClientError;
use onego_block::Outcome;
use onego_buf::{List, Pool, SegmentMut};
use std::ops::Range;

/// Maximum number of runs received out of order. Servers split a read at the boundaries of holes and send the parts in
/// any order.
const RUNS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Reading {
    length: usize,
    bytes: Bytes,
    into: bool,
    /// Received runs, sorted and not adjacent.
    runs: Vec<Range<usize>>,
}

#[derive(Debug)]
enum Bytes {
    /// No data yet, or the buffer is lent out for a receive.
    None,
    Buffer(SegmentMut),
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

    /// Returns whether the data may be shared memory: the caller gave no buffer, and no data has arrived.
    pub(super) fn takes_list(&self) -> bool {
        !self.into && self.runs.is_empty()
    }

    /// Discards the received data before the read is sent again.
    pub(super) fn restart(&mut self) {
        self.runs.clear();
        if let Bytes::List(_) = self.bytes {
            self.bytes = Bytes::None;
        }
    }

    /// Marks announced bytes as received. Fails if they are outside the read or already received.
    pub(super) fn claim(&mut self, bytes: Range<usize>) -> Result<(), ClientError> {
        if bytes.is_empty() || bytes.end > self.length {
            return Err(ClientError::Protocol("it sends data outside the requested range"));
        }
        let at = self.runs.partition_point(|run| run.end < bytes.start);
        if self.runs.get(at).is_some_and(|run| run.start < bytes.end && bytes.start < run.end) {
            return Err(ClientError::Protocol("it sends bytes of a read twice"));
        }
        // The run at `at` ends where the bytes begin, or begins after them.
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

    /// Takes the buffer for a receive. [`put_back`](Self::put_back) returns it.
    pub(super) fn take(&mut self, pool: &Pool) -> SegmentMut {
        match std::mem::replace(&mut self.bytes, Bytes::None) {
            Bytes::Buffer(buffer) => buffer,
            Bytes::None | Bytes::List(_) => pool.get(self.length),
        }
    }

    pub(super) fn put_back(&mut self, buffer: SegmentMut) {
        self.bytes = Bytes::Buffer(buffer);
    }

    pub(super) fn put_list(&mut self, list: List) {
        self.bytes = Bytes::List(list);
    }

    pub(super) fn put_zeros(&mut self, bytes: Range<usize>, pool: &Pool) {
        let mut buffer = self.take(pool);
        buffer[bytes].fill(0);
        self.put_back(buffer);
    }

    pub(super) fn finish(self) -> Result<Outcome, ClientError> {
        let is_whole = self.runs.len() == 1 && self.runs[0] == (0..self.length);
        if !is_whole && self.length > 0 {
            return Err(ClientError::Protocol("it ends a read with missing data"));
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
    fn pieces_in_any_order_complete_a_read() {
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
    fn duplicate_or_unrequested_bytes_break_the_protocol() {
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
    fn a_read_in_too_many_pieces_is_rejected() {
        let mut reading = Reading::new(1 << 20);
        let mut claims = (0..1 << 19).map(|n| reading.claim(2 * n..2 * n + 1));
        assert_eq!(claims.position(|claim| claim.is_err()), Some(RUNS_MAX));
    }
}
