//! What a disk may hold, as far as its clients can know it.

use onego_wire::Time;
use std::ops::Range;

/// Bytes of a block: requests of the simulation are multiples of it.
pub(crate) const BLOCK: usize = 512;

/// What was written to a block: the number of the write, or 0 for zeros.
pub(crate) type Value = u32;

/// A change of a block.
#[derive(Debug, Clone, Copy)]
struct Change {
    value: Value,
    /// It was acknowledged, or a read has seen it. Other changes are there or not.
    certain: bool,
}

/// One block. Its changes are in order, because the clients make only one at a time.
#[derive(Debug, Clone)]
struct Block {
    changes: Vec<Change>,
    /// The change that a crash leaves, or one after it.
    durable: usize,
    /// Requests in flight that read it, or the one that changes it.
    readers: u32,
    changing: bool,
    /// A change whose client is gone may happen until then.
    loose_until: Time,
}

/// A request in flight.
pub(crate) struct Asked {
    pub(crate) what: What,
    pub(crate) blocks: Range<usize>,
    /// The device may fail it.
    pub(crate) may_fail: bool,
}

pub(crate) enum What {
    Read,
    /// Forced: it is durable when it completes.
    Change {
        forced: bool,
    },
    Flush(Snapshot),
    Status,
}

/// The blocks of a disk.
pub(crate) struct Disk(Vec<Block>);

/// The changes that a flush has to make durable: of each block, the last that was certain when it was sent.
pub(crate) type Snapshot = Vec<usize>;

impl Disk {
    /// A disk of zeros.
    pub(crate) fn new(blocks: usize) -> Self {
        Self(vec![Block::of(0); blocks])
    }

    /// May these blocks be read, or changed, so that it is clear what comes of it?
    pub(crate) fn is_free(&self, now: Time, blocks: Range<usize>, changes: bool) -> bool {
        self.0[blocks]
            .iter()
            .all(|block| !block.changing && block.loose_until <= now && (!changes || block.readers == 0))
    }

    pub(crate) fn begin_read(&mut self, blocks: Range<usize>) {
        self.0[blocks].iter_mut().for_each(|block| block.readers += 1);
    }

    pub(crate) fn end_read(&mut self, blocks: Range<usize>) {
        self.0[blocks].iter_mut().for_each(|block| block.readers -= 1);
    }

    pub(crate) fn begin_change(&mut self, blocks: Range<usize>, value: Value) {
        for block in &mut self.0[blocks] {
            block.changing = true;
            block.changes.push(Change { value, certain: false });
        }
    }

    /// A change was acknowledged, and is `durable` or not.
    pub(crate) fn changed(&mut self, blocks: Range<usize>, durable: bool) {
        for block in &mut self.0[blocks] {
            block.changing = false;
            let last = block.changes.len() - 1;
            block.changes[last].certain = true;
            if durable {
                block.durable = last;
            }
        }
    }

    /// A change has failed, or its client is gone: each of its blocks has changed or not, or will have by then.
    fn unknown(&mut self, blocks: Range<usize>, until: Time) {
        for block in &mut self.0[blocks] {
            block.changing = false;
            block.loose_until = until;
        }
    }

    /// Nobody will ever know what came of a request. If it changes something, it has done so by then, or never does.
    pub(crate) fn forget(&mut self, asked: Asked, until: Time) {
        match asked.what {
            What::Read | What::Status => self.end_read(asked.blocks),
            What::Change { .. } => self.unknown(asked.blocks, until),
            What::Flush(_) => {}
        }
    }

    /// What a flush that is sent now has to make durable.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.iter().map(Block::known).collect()
    }

    pub(crate) fn flushed(&mut self, snapshot: &Snapshot) {
        for (block, known) in self.0.iter_mut().zip(snapshot) {
            block.durable = block.durable.max(*known);
        }
    }

    /// Checks what was read of blocks.
    pub(crate) fn check(&mut self, first: usize, bytes: &[u8]) {
        for (n, bytes) in bytes.chunks(BLOCK).enumerate() {
            let block = &mut self.0[first + n];
            let (known, value) = (block.known(), value_of(bytes));
            let seen = block.changes[known..].iter().rposition(|change| change.value == value);
            let Some(seen) = seen else {
                panic!("block {} has what was written as {value}: {block:?}", first + n);
            };
            // Changes behind the last that a read may have seen have not happened.
            block.changes.truncate(known + seen + 1);
            block.changes[known + seen].certain = true;
        }
    }

    /// Are these blocks zeros, for all that is known?
    pub(crate) fn may_be_zero(&self, blocks: Range<usize>) -> bool {
        self.0[blocks]
            .iter()
            .all(|block| block.changes[block.known()..].iter().any(|change| change.value == 0))
    }

    /// Checks what a crash has left, and goes on with that. Returns how many blocks have lost changes that were acknowledged,
    /// and how many have kept changes that were not durable.
    pub(crate) fn crashed(&mut self, bytes: &[u8]) -> (u64, u64) {
        let (mut lost, mut kept) = (0, 0);
        for (n, bytes) in bytes.chunks(BLOCK).enumerate() {
            let (block, value) = (&mut self.0[n], value_of(bytes));
            let left = block.changes[block.durable..].iter().rposition(|change| change.value == value);
            let Some(left) = left else {
                panic!("a crash has left what was written as {value} in block {n}: {block:?}");
            };
            lost += u64::from(block.durable + left < block.known());
            kept += u64::from(left > 0);
            *block = Block::of(value);
        }
        (lost, kept)
    }
}

impl Block {
    fn of(value: Value) -> Self {
        let changes = vec![Change { value, certain: true }];
        Self { changes, durable: 0, readers: 0, changing: false, loose_until: Time::default() }
    }

    /// The last change that is certain.
    fn known(&self) -> usize {
        self.changes.iter().rposition(|change| change.certain).unwrap_or(0)
    }
}

/// The bytes of blocks that were written as `value`.
pub(crate) fn bytes_of(value: Value, blocks: usize) -> Vec<u8> {
    value.to_be_bytes().repeat(blocks * BLOCK / 4)
}

/// What a block was written as, which must be the same all over it.
fn value_of(block: &[u8]) -> Value {
    let value = Value::from_be_bytes(block[..4].try_into().unwrap());
    assert!(bytes_of(value, 1) == block, "a block is of several writes");
    value
}
