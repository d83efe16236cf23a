//! Zeros of the source, as far as its status is known.

use crate::status::StatusExtent;
use std::collections::VecDeque;

/// Maximum length of a status request. The answer may cover less, and has at most 4096 runs.
const ASKED: u64 = 4 << 30;

/// Status of the source's bytes from a position on.
pub(super) struct KnownExtents {
    /// End of the bytes with known status.
    end: u64,
    size: u64,
    runs: VecDeque<StatusExtent>,
    is_asking: bool,
}

impl KnownExtents {
    pub(super) fn new(start: u64, size: u64) -> Self {
        Self { end: start, size, runs: VecDeque::new(), is_asking: false }
    }

    pub(super) fn ask(&mut self) -> Option<(u64, u64)> {
        if self.is_asking || !self.runs.is_empty() || self.end >= self.size {
            return None;
        }
        self.is_asking = true;
        Some((self.end, (self.size - self.end).min(ASKED)))
    }

    /// Processes the answer to a request of `asked` bytes. Without any run, the bytes count as data.
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

    /// Returns whether the next bytes are zeros, and how many of them; `None` if their status is unknown.
    pub(super) fn first(&self) -> Option<(bool, u64)> {
        let is_zero = self.runs.front()?.status.zero;
        let same = self.runs.iter().take_while(|run| run.status.zero == is_zero);
        Some((is_zero, same.map(|run| run.length).sum()))
    }

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
