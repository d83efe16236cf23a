//! Memory accessible to the peer, and its names.

use onego_buf::{List, Pool, SegmentMut};
use std::fmt;

/// Name of registered memory for the peer: a steering tag (STag), of which the upper 24 bits are an index and the lower
/// 8 a key. Protocols above carry it as a number (RPC-over-RDMA: `handle`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u32);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Address in the peer's memory, as stated by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The region.
    pub key: Key,
    /// Offset of the first byte, in the region's own numbering (see
    /// [`QueuePair::register`](crate::QueuePair::register)).
    pub offset: u64,
}

/// Memory registered for the peer. The kind of ownership is the access right.
#[derive(Debug)]
pub enum Memory {
    /// Readable by RDMA Reads of the peer. It is shared and immutable.
    Source(List),
    /// Writable by RDMA Writes of the peer. It belongs to the queue pair until it is invalidated.
    Sink(SegmentMut),
    /// A sink of this length, to be taken from a pool. A provider in software takes it when the first byte arrives, so
    /// that waiting for a reply takes no memory, and the bytes go to memory that is still in the cache. Once it is
    /// taken it comes back as a [`Sink`](Self::Sink).
    Fresh(Pool, usize),
}

impl Memory {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Source(list) => list.len(),
            Self::Sink(segment) => segment.len(),
            Self::Fresh(_, len) => *len,
        }
    }

    /// Takes a [`Fresh`](Self::Fresh) sink from its pool.
    pub fn taken(mut self) -> Self {
        self.sink();
        self
    }

    /// Returns the memory that the peer may write, taking it from its pool if necessary.
    pub fn sink(&mut self) -> Option<&mut SegmentMut> {
        if let Self::Fresh(pool, len) = self {
            *self = Self::Sink(pool.get(*len));
        }
        match self {
            Self::Sink(sink) => Some(sink),
            _ => None,
        }
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
