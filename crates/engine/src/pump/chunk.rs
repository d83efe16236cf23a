use onego_buf::{Pool, SegmentMut};

/// Memory for receives that the machine gives no place for: many small messages share one chunk. Large enough that a
/// deep queue of small messages arrives in one system call.
const CHUNK: usize = 256 << 10;

/// A rest of a chunk that is smaller than this is left: what is there would often not fit, and take two system calls.
const MIN_REST: usize = CHUNK / 2;

/// Memory that the pool keeps for reuse: chunks are held by the messages in them, so their number follows the
/// machine's own bounds; this much of it is kept when they are let go of.
const IDLE_LIMIT: usize = 16 << 20;

/// Rests that are kept. With a readiness engine there is never more than one.
const MAX_RESTS: usize = 64;

/// Shared receive memory: rests of chunks that nothing was received into yet.
pub(super) struct Chunks {
    pool: Pool,
    rests: Vec<SegmentMut>,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { pool: Pool::new(IDLE_LIMIT), rests: Vec::new() }
    }
}

impl Chunks {
    pub(super) fn take(&mut self) -> SegmentMut {
        self.rests.pop().unwrap_or_else(|| self.pool.get(CHUNK))
    }

    pub(super) fn put_back(&mut self, rest: SegmentMut) {
        if rest.len() >= MIN_REST && self.rests.len() < MAX_RESTS {
            self.rests.push(rest);
        }
    }
}
