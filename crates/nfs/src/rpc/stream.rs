//! One side of a TCP connection that carries records, for clients and servers.

use super::record::{Record, RecordError, RecordReader, Splitter, put_record};
use onego_buf::{Arena, List, Pool, Segment, SegmentMut};
use onego_wire::{Landing, Unfinished};
use std::collections::VecDeque;

/// One side of a connection that carries records: an output queue and a record reader.
///
/// The owner moves its bytes as a driver does for a [`Machine`](onego_wire::Machine), whose methods have the same
/// names. The output queue is unbounded: the owner must watch [`unsent`](Self::unsent) and stop accepting work.
#[derive(Debug)]
pub struct Stream {
    reader: RecordReader,
    /// Received data that the reader has not consumed.
    received: VecDeque<Segment>,
    arena: Arena,
    /// Output that precedes the data pending in the arena.
    unsent: List,
}

impl Stream {
    /// Creates a stream for records of at most `record_max` bytes. Small parts of the output are copied to memory from
    /// `pool`.
    pub fn new(record_max: usize, pool: Pool) -> Self {
        Self::with(RecordReader::new(record_max), pool)
    }

    /// Creates a stream for a server, which accepts broken records (see [`RecordReader::for_server`]).
    pub fn for_server(record_max: usize, front_max: usize, pool: Pool) -> Self {
        Self::with(RecordReader::for_server(record_max, front_max), pool)
    }

    fn with(reader: RecordReader, pool: Pool) -> Self {
        Self { reader, received: VecDeque::new(), arena: Arena::new(pool), unsent: List::new() }
    }

    /// Returns the receive target for the next bytes.
    pub fn landing(&mut self) -> Landing {
        self.reader.landing()
    }

    /// Returns the buffer from [`landing`](Self::landing), with its first `filled` bytes received. This may complete a
    /// message; call [`next`](Self::next).
    ///
    /// # Panics
    /// If `place` is not that buffer.
    pub fn landed(&mut self, place: SegmentMut, filled: usize) {
        self.reader.landed(place, filled);
    }

    /// Adds received data. Call [`next`](Self::next) for the messages.
    pub fn received(&mut self, bytes: Segment) {
        self.received.push_back(bytes);
    }

    /// Returns the next complete message. `splitter` provides a buffer for its payload.
    #[inline]
    pub fn next(&mut self, splitter: &mut dyn Splitter) -> Result<Option<Record>, RecordError> {
        loop {
            let Some(bytes) = self.received.front_mut() else {
                // The last bytes of a message may have been received into its payload buffer.
                return self.reader.next(&mut Segment::from_static(&[]), splitter);
            };
            let record = self.reader.next(bytes, splitter)?;
            if bytes.is_empty() {
                self.received.pop_front();
            }
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// Returns the size and progress of a partially received message. Unparsed data counts as held.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        let unfinished = self.reader.unfinished();
        if self.received.is_empty() {
            return unfinished;
        }
        let waits: usize = self.received.iter().map(|bytes| bytes.len()).sum();
        let Unfinished { announced, held } = unfinished.unwrap_or_default();
        Some(Unfinished { announced, held: held + waits })
    }

    /// Copies small unparsed data out of receive buffers that it shares with other messages. To be called when the data
    /// will not be parsed soon.
    pub fn settle(&mut self) {
        for bytes in self.received.iter_mut().filter(|bytes| bytes.len() <= bytes.block_len() / 4) {
            *bytes = Segment::copy_from(bytes);
        }
    }

    /// Takes the partially filled payload buffer after the connection has ended, unless it is lent out.
    pub fn take_place(&mut self) -> Option<SegmentMut> {
        self.reader.take_place()
    }

    /// Queues a message.
    pub fn send(&mut self, front: &[u8], payload: List) {
        put_record(front, payload, &mut self.arena, &mut self.unsent);
    }

    /// Returns the number of queued bytes.
    pub fn unsent(&self) -> usize {
        self.unsent.len() + self.arena.pending()
    }

    /// Moves about `limit` queued bytes at most to `out`.
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        self.arena.flush(&mut self.unsent);
        if self.unsent.len() <= limit {
            out.append(std::mem::take(&mut self.unsent));
        } else {
            out.append(self.unsent.split_to(limit.max(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Split;

    struct Eight;

    impl Splitter for Eight {
        fn split(&mut self, start: &[u8]) -> Split {
            let len = start.get(4..8).map(|word| u32::from_be_bytes(word.try_into().unwrap()) as usize);
            len.map_or(Split::More(8), |len| Split::At(8, len))
        }

        fn place(&mut self, _: &[u8], payload: usize) -> Option<SegmentMut> {
            Some(SegmentMut::zeroed(payload))
        }
    }

    fn message(n: u32, len: usize) -> (Vec<u8>, Vec<u8>) {
        ([n.to_be_bytes(), (len as u32).to_be_bytes()].concat(), vec![n as u8; len])
    }

    /// Transfers everything in pieces of `cut` bytes, directly into payload buffers where possible.
    fn carry(from: &mut Stream, to: &mut Stream, cut: usize) -> Vec<Record> {
        let (mut bytes, mut records) = (List::new(), Vec::new());
        while from.unsent() > 0 {
            from.transmit(&mut bytes, cut);
        }
        while !bytes.is_empty() {
            let mut part = bytes.split_to(cut.min(bytes.len())).to_segment();
            if let Some(mut place) = to.landing().place {
                let n = place.len().min(part.len());
                place[..n].copy_from_slice(&part[..n]);
                part.advance(n);
                to.landed(place, n);
            }
            if !part.is_empty() {
                to.received(part);
            }
            while let Some(record) = to.next(&mut Eight).unwrap() {
                records.push(record);
            }
        }
        records
    }

    #[test]
    fn messages_arrive_intact_whatever_the_segmentation() {
        for cut in [1, 7, 1000, 5000, 1 << 20] {
            let pool = Pool::new(1 << 20);
            let mut client = Stream::new(1 << 20, pool.clone());
            let mut server = Stream::new(1 << 20, pool);
            let sent =
                [(1, 0), (2, 5), (3, 70_000), (4, 0), (5, 4096), (6, 1)].map(|(n, len)| message(n, len));
            for (front, payload) in &sent {
                client.send(front, List::from(payload.clone()));
            }
            let received = carry(&mut client, &mut server, cut);
            assert_eq!(received.len(), sent.len());
            for (record, (front, payload)) in received.iter().zip(&sent) {
                assert_eq!(&*record.front, front);
                assert_eq!(record.placed.as_deref().unwrap_or_default(), payload);
            }
            assert_eq!(client.unsent(), 0);
        }
    }
}
