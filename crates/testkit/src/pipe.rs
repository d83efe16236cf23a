//! Bytes on their way to one end of a connection, without sockets.

use onego_buf::{Segment, SegmentMut};
use onego_wire::Landing;
use std::collections::VecDeque;

/// Bytes on their way to one end of a connection.
#[derive(Debug, Default)]
pub struct Pipe {
    bytes: VecDeque<u8>,
}

/// What a driver gives to the end.
#[derive(Debug)]
pub enum Delivery {
    /// A buffer of the landing is back, with this number of bytes.
    Landed(SegmentMut, usize),
    /// Bytes came in shared memory.
    Received(Segment),
}

/// How many bytes were delivered which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Right to their place.
    pub placed: usize,
    /// In shared memory.
    pub shared: usize,
}

impl Delivered {
    /// All of them.
    pub fn bytes(self) -> usize {
        self.placed + self.shared
    }
}

impl From<&[u8]> for Pipe {
    fn from(bytes: &[u8]) -> Self {
        Self { bytes: bytes.iter().copied().collect() }
    }
}

/// Sends bytes behind those that are on their way.
impl Extend<u8> for Pipe {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.bytes.extend(bytes);
    }
}

/// Sends bytes behind those that are on their way.
impl<'a> Extend<&'a u8> for Pipe {
    fn extend<I: IntoIterator<Item = &'a u8>>(&mut self, bytes: I) {
        self.bytes.extend(bytes);
    }
}

impl Pipe {
    /// Takes the last `len` bytes back.
    pub fn take_back(&mut self, len: usize) -> Vec<u8> {
        self.bytes.split_off(self.bytes.len() - len).into()
    }

    /// Bytes that are on their way.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Are no bytes on their way?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Delivers at most `most` bytes to an end that has said where its next bytes go, as one receive of a driver does: first to
    /// the places, then to shared memory. A place comes back in any case. With nothing delivered the end reads nothing now.
    pub fn deliver(&mut self, landing: Landing, most: usize, mut take: impl FnMut(Delivery)) -> Delivered {
        let budget = most.min(self.bytes.len());
        let mut delivered = Delivered::default();
        let ahead = landing.ahead;
        for mut place in landing.into_places() {
            let n = place.len().min(budget - delivered.placed);
            place.iter_mut().zip(self.bytes.drain(..n)).for_each(|(to, from)| *to = from);
            delivered.placed += n;
            take(Delivery::Landed(place, n));
        }
        delivered.shared = ahead.min(budget - delivered.placed);
        if delivered.shared > 0 {
            let bytes: Vec<u8> = self.bytes.drain(..delivered.shared).collect();
            take(Delivery::Received(Segment::from(bytes)));
        }
        delivered
    }
}
