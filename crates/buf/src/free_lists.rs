//! Blocks that a pool keeps for reuse.

use crate::block::Block;
use crate::mapping::{MAPPED, PAGE};
use crate::slab::{SLAB, Slab};
use crate::sync::{AtomicU64, Mutex, MutexGuard};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Smallest and largest block kept for reuse: a page and 4 MiB, the default object size of RBD.
const MIN_SHIFT: u32 = PAGE.trailing_zeros();
const MAX_SHIFT: u32 = 22;
const CLASSES: usize = (MAX_SHIFT - MIN_SHIFT + 1) as usize;

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Number of blocks served from those kept.
    pub reused: u64,
    /// Number of blocks allocated.
    pub allocated: u64,
    /// Bytes currently kept for reuse.
    pub idle_bytes: u64,
    /// Bytes of slabs, in use or not.
    pub slab_bytes: u64,
}

/// Kept blocks by size, and accounting of the slabs that blocks are cut from.
pub(crate) struct FreeLists {
    classes: [Class; CLASSES],
    idle_limit: u64,
    idle: AtomicU64,
    slab_limit: u64,
    slabs: AtomicU64,
    reused: AtomicU64,
    allocated: AtomicU64,
}

#[derive(Default)]
struct Class {
    blocks: Mutex<Vec<Block>>,
    idle: AtomicU64,
    /// Blocks of slabs. They are not freed individually: a slab is freed as a whole.
    cut: Mutex<Vec<Block>>,
}

/// Locks the vector even if poisoned: a panic under the lock leaves it consistent.
fn lock(blocks: &Mutex<Vec<Block>>) -> MutexGuard<'_, Vec<Block>> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Class {
    fn push(&self, block: Block) {
        self.idle.fetch_add(block.len() as u64, Relaxed);
        lock(&self.blocks).push(block);
    }

    fn pop(&self) -> Option<Block> {
        let block = lock(&self.blocks).pop()?;
        self.idle.fetch_sub(block.len() as u64, Relaxed);
        Some(block)
    }
}

/// Returns the class of blocks that hold `len` bytes, if that size is kept.
pub(crate) fn class_of(len: usize) -> Option<usize> {
    let shift = len.max(PAGE).next_power_of_two().trailing_zeros();
    (shift <= MAX_SHIFT).then(|| (shift - MIN_SHIFT) as usize)
}

impl FreeLists {
    /// Creates lists that keep at most `idle_limit` bytes, besides at most `slab_limit` bytes of slabs.
    pub(crate) fn new(idle_limit: u64, slab_limit: u64) -> Self {
        Self {
            classes: Default::default(),
            idle_limit,
            idle: AtomicU64::new(0),
            slab_limit,
            slabs: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
        PoolStats {
            reused: self.reused.load(Relaxed),
            allocated: self.allocated.load(Relaxed),
            idle_bytes: self.idle.load(Relaxed),
            slab_bytes: self.slabs.load(Relaxed),
        }
    }

    pub(crate) fn get(&self, class: usize) -> Block {
        match self.take(class) {
            Some(block) => {
                self.reused.fetch_add(1, Relaxed);
                block
            }
            None => {
                self.allocated.fetch_add(1, Relaxed);
                self.cut(class).unwrap_or_else(|| Block::zeroed(PAGE << class))
            }
        }
    }

    /// Allocates a block of `len` bytes outside all classes.
    pub(crate) fn allocate(&self, len: usize) -> Block {
        self.allocated.fetch_add(1, Relaxed);
        Block::zeroed(len)
    }

    pub(crate) fn put(&self, block: Block) {
        let Some(class) = class_of(block.len()) else { return };
        if block.is_cut() {
            return lock(&self.classes[class].cut).push(block);
        }
        self.keep(block);
        // The block returned last has a size in current use. A size no longer requested must not fill the pool forever,
        // so the size that fills most of it makes room.
        while self.idle.load(Relaxed) > self.idle_limit {
            let fullest = self.classes.iter().max_by_key(|class| class.idle.load(Relaxed));
            let Some(block) = fullest.and_then(Class::pop) else { return };
            self.idle.fetch_sub(block.len() as u64, Relaxed);
        }
    }

    fn keep(&self, block: Block) {
        let Some(class) = class_of(block.len()) else { return };
        self.idle.fetch_add(block.len() as u64, Relaxed);
        self.classes[class].push(block);
    }

    /// Returns a kept block of a class, or splits a larger one.
    fn take(&self, class: usize) -> Option<Block> {
        if self.slab_limit > 0
            && let Some(block) = lock(&self.classes[class].cut).pop()
        {
            return Some(block);
        }
        if let Some(block) = self.classes[class].pop() {
            self.idle.fetch_sub(block.len() as u64, Relaxed);
            return Some(block);
        }
        if PAGE << class < MAPPED {
            return None;
        }
        // Fresh memory would cost a page fault and zeroing for every page.
        let mut block = self.classes[class + 1..].iter().find_map(Class::pop)?;
        self.idle.fetch_sub(block.len() as u64, Relaxed);
        while block.len() > PAGE << class {
            self.keep(block.split_half());
        }
        Some(block)
    }

    /// Cuts a new slab into blocks of a class, keeps all but one of them and returns that one. Returns `None` if the
    /// slab limit is reached.
    fn cut(&self, class: usize) -> Option<Block> {
        let block = PAGE << class;
        let len = block.max(SLAB) as u64;
        let room = |slabs: u64| slabs.checked_add(len).filter(|slabs| *slabs <= self.slab_limit);
        self.slabs.fetch_update(Relaxed, Relaxed, room).ok()?;
        let slab = Arc::new(Slab::new(block));
        // SAFETY: they are parts of the slab that do not overlap, and it is not cut anywhere else.
        let mut blocks = slab.blocks(block).map(|ptr| unsafe { Block::cut(ptr, block, Arc::clone(&slab)) });
        let first = blocks.next();
        lock(&self.classes[class].cut).extend(blocks);
        first
    }
}
