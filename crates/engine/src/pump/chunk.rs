use onego_buf::{Pool, SegmentMut};

/// Size of the shared memory for receives without a place: many small messages share one chunk. Large enough that a
/// deep queue of small messages arrives in one system call.
const CHUNK: usize = 256 << 10;

/// A smaller rest of a chunk is dropped: messages would often not fit and take two system calls.
const MIN_REST: usize = CHUNK / 2;

/// Memory that the pool keeps for reuse. The messages in a chunk hold it, so the machine's own bounds limit the number
/// of chunks; the pool keeps this much of what they release.
const IDLE_LIMIT: usize = 16 << 20;

/// Limit on kept rests. A readiness engine has at most one.
const MAX_RESTS: usize = 64;

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
