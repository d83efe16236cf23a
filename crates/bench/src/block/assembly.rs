//! I/Os that are split into pieces and reassembled.

use onego::List;
use onego::block::{Error, Op};
use std::collections::VecDeque;

/// Size of a piece: a page.
pub(super) const PIECE: u64 = 4096;

/// A completed I/O, with the bytes of a read.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) tag: u64,
    pub(super) result: Result<List, Error>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PieceName {
    io: u32,
    index: u32,
}

impl PieceName {
    pub(super) fn to_tag(self) -> u64 {
        u64::from(self.io) << 32 | u64::from(self.index)
    }

    pub(super) fn from_tag(tag: u64) -> Self {
        Self { io: (tag >> 32) as u32, index: tag as u32 }
    }
}

#[derive(Debug)]
pub(super) struct Piece {
    pub(super) name: PieceName,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Data of a write; `None` for a read.
    pub(super) data: Option<List>,
}

/// An I/O whose pieces are in flight. Its memory is reused.
#[derive(Debug, Default)]
struct Partial {
    tag: u64,
    left: usize,
    parts: Vec<List>,
    error: Option<Error>,
}

#[derive(Debug, Default)]
pub(super) struct Assembly {
    ios: Vec<Partial>,
    free: Vec<u32>,
    finished: VecDeque<Finished>,
}

impl Assembly {
    /// Splits an I/O into pieces that end at multiples of [`PIECE`], and passes each to `each`.
    ///
    /// # Panics
    /// Panics if it is neither a read nor a write, or has no bytes.
    pub(super) fn cut(&mut self, tag: u64, offset: u64, op: Op, mut each: impl FnMut(Piece)) {
        let (length, mut data) = match op {
            Op::Read { length } => (length, None),
            Op::Write { data } => (data.len() as u64, Some(data)),
            other => panic!("{other:?} is neither a read nor a write"),
        };
        assert!(length > 0, "an I/O of no bytes has no pieces");
        let end = offset + length;
        let io = self.begin(tag, (end.div_ceil(PIECE) - offset / PIECE) as usize);
        let (mut at, mut index) = (offset, 0);
        while at < end {
            let length = (PIECE - at % PIECE).min(end - at);
            let data = data.as_mut().map(|data| data.split_to(length as usize));
            each(Piece { name: PieceName { io, index }, offset: at, length, data });
            (at, index) = (at + length, index + 1);
        }
    }

    fn begin(&mut self, tag: u64, pieces: usize) -> u32 {
        let io = self.free.pop().unwrap_or_else(|| {
            self.ios.push(Partial::default());
            self.ios.len() as u32 - 1
        });
        let partial = &mut self.ios[io as usize];
        (partial.tag, partial.left) = (tag, pieces);
        partial.parts.resize_with(pieces, List::new);
        io
    }

    pub(super) fn done(&mut self, name: PieceName, result: Result<List, Error>) {
        let partial = &mut self.ios[name.io as usize];
        match result {
            Ok(data) => partial.parts[name.index as usize] = data,
            Err(error) => partial.error = Some(error),
        }
        partial.left -= 1;
        if partial.left > 0 {
            return;
        }
        let mut whole = List::new();
        partial.parts.drain(..).for_each(|part| whole.append(part));
        let result = partial.error.take().map_or(Ok(whole), Err);
        self.finished.push_back(Finished { tag: partial.tag, result });
        self.free.push(name.io);
    }

    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }
}
