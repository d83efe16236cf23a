//! Shared memory segments and scatter/gather lists, used across all crates of Onego.
//!
//! A [`Segment`] is a shared, immutable piece of memory; a [`SegmentMut`] is a writable piece with one owner; a
//! [`List`] is a sequence of segments that represents one run of bytes. None of them is ever copied to be passed on. A
//! [`Pool`] hands out page-aligned memory and takes it back when its last segment is dropped. [`extents`] keep the
//! bytes of an object, a file or a disk in the memory in which they arrived.

mod arena;
mod block;
mod crc;
pub mod extents;
mod free_lists;
mod list;
mod mapping;
mod memory;
#[cfg(all(test, loom))]
mod orders;
mod pool;
mod segment;
mod slab;
mod sync;
mod zeros;

pub use arena::Arena;
pub use crc::crc32c;
pub use free_lists::PoolStats;
pub use list::{List, Segments};
pub use pool::Pool;
pub use segment::{Segment, SegmentMut};
pub use slab::Slab;
pub use zeros::zeros;
