//! Which bytes of the source are zeros, as far as that was asked.

use crate::status::StatusExtent;
use std::collections::VecDeque;

/// Bytes whose status is asked for at a time. The answer may be of fewer, and of 4096 runs at the most.
const ASKED: u64 = 4 << 30;

/// What is known of the bytes of the source from a place on.
pub(super) struct KnownExtents {
    /// The first byte of which nothing is known.
    end: u64,
    size: u64,
    runs: VecDeque<StatusExtent>,
    /// An answer is on its way.
    is_asking: bool,
}

impl KnownExtents {
    /// Nothing is known of the bytes from `start` to `size`.
    pub(super) fn new(start: u64, size: u64) -> Self {
        Self { end: start, size, runs: VecDeque::new(), is_asking: false }
    }

    /// The bytes whose status is to be asked for, if it is time.
    pub(super) fn ask(&mut self) -> Option<(u64, u64)> {
        if self.is_asking || !self.runs.is_empty() || self.end >= self.size {
            return None;
        }
        self.is_asking = true;
        Some((self.end, (self.size - self.end).min(ASKED)))
    }

    /// An answer: runs from where nothing was known on. Without any, the bytes may be anything.
    pub(super) fn learn(&mut self, asked: u64, runs: Vec<StatusExtent>) {
        self.is_asking = false;
        let mut left = asked;
        for run in runs {
            let length = run.length.min(left);
            left -= length;
            if length > 0 {
                self.runs.push_back(StatusExtent { length, ..run });
            }
        }
        if left == asked {
            self.runs.push_back(StatusExtent { length: left, status: Default::default() });
            left = 0;
        }
        self.end += asked - left;
    }

    /// Whether the next bytes are zeros, and how many of them it is known of; `None`: nothing is known.
    pub(super) fn first(&self) -> Option<(bool, u64)> {
        let is_zero = self.runs.front()?.status.zero;
        let same = self.runs.iter().take_while(|run| run.status.zero == is_zero);
        Some((is_zero, same.map(|run| run.length).sum()))
    }

    /// The next bytes are dealt with: of which more may be known, or less.
    pub(super) fn take(&mut self, mut bytes: u64) {
        while bytes > 0 {
            let Some(run) = self.runs.front_mut() else {
                self.end += bytes;
                return;
            };
            let taken = run.length.min(bytes);
            run.length -= taken;
            bytes -= taken;
            if run.length == 0 {
                self.runs.pop_front();
            }
        }
    }
}
