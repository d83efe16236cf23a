//! Memory that the peer may get at, and its names.

use onego_buf::{List, Pool, SegmentMut};
use std::fmt;

/// Names registered memory to the peer: a steering tag, of which the upper 24 bits are an index and the lower 8 a key.
/// Protocols above carry it as a number (RPC-over-RDMA: `handle`).
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

/// A place in memory of the peer, as it told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The region.
    pub key: Key,
    /// Offset of the first byte, in the numbering that the region has there (see [`QueuePair::register`](crate::QueuePair::register)).
    pub offset: u64,
}

/// Memory that is registered for the peer. The kind of ownership is the access right.
#[derive(Debug)]
pub enum Memory {
    /// The peer may read it with RDMA Reads. It is shared and nobody can write it.
    Source(List),
    /// The peer may write it with RDMA Writes. It belongs to the queue pair until it is invalidated.
    Sink(SegmentMut),
    /// A sink of this length, to be taken from a pool. A provider in software takes it when the first byte comes, so that
    /// waiting for an answer takes no memory, and the bytes find memory that was in use a moment ago. Once it is taken it
    /// comes back as a [`Sink`](Self::Sink).
    Fresh(Pool, usize),
}

impl Memory {
    /// Its bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Source(list) => list.len(),
            Self::Sink(segment) => segment.len(),
            Self::Fresh(_, len) => *len,
        }
    }

    /// Takes from its pool what is still there.
    pub fn taken(mut self) -> Self {
        self.sink();
        self
    }

    /// What the peer may write, taken from its pool if it is still there.
    pub fn sink(&mut self) -> Option<&mut SegmentMut> {
        if let Self::Fresh(pool, len) = self {
            *self = Self::Sink(pool.get(*len));
        }
        match self {
            Self::Sink(sink) => Some(sink),
            _ => None,
        }
    }

    /// Has it no byte?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
