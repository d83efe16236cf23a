//! Compares bytes of two devices, to verify an earlier copy before another continues it.

use super::error::{CopyError, CopySide};
use crate::caller::{Completion, Completions};
use crate::device::Device;
use crate::outcome::Outcome;
use crate::request::{Op, Request};
use onego_buf::List;
use onego_wire::Time;
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

const DEPTH: usize = 8;

type Compared = Result<Option<u64>, CopyError>;

#[derive(Default)]
struct CompareState {
    result: Option<Compared>,
    done: u64,
    /// Number of bytes after which the waker is called.
    awaited: u64,
    waker: Option<Waker>,
}

/// A comparison in progress. Dropping it does not end the comparison.
#[derive(Clone, Default)]
pub struct CompareHandle {
    state: Rc<RefCell<CompareState>>,
}

impl CompareHandle {
    /// Waits for the end. Returns the offset of a piece that differs; `None` if all bytes are equal.
    pub async fn result(&self) -> Compared {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            match state.result.clone() {
                Some(result) => Poll::Ready(result),
                None => {
                    state.awaited = u64::MAX;
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Returns the number of bytes compared so far.
    pub fn done(&self) -> u64 {
        self.state.borrow().done
    }

    /// Waits until more than `done` bytes are compared, or for the end. Returns whether the end is reached.
    pub async fn beyond(&self, done: u64) -> bool {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.result.is_some() || state.done > done {
                return Poll::Ready(state.result.is_some());
            }
            (state.waker, state.awaited) = (Some(cx.waker().clone()), done);
            Poll::Pending
        })
        .await
    }
}

struct Pair {
    offset: u64,
    length: u64,
    /// The bytes of the side that completed first.
    first: Option<List>,
}

pub(super) struct Compare {
    from: Rc<dyn Device>,
    to: Rc<dyn Device>,
    piece: u64,
    left: VecDeque<Range<u64>>,
    /// Pairs in flight; the lowest bit of a tag selects the side of a read.
    pairs: Slab<Pair>,
    completions: Completions,
    handle: CompareHandle,
}

impl Compare {
    pub(super) fn new(
        from: Rc<dyn Device>,
        to: Rc<dyn Device>,
        ranges: impl IntoIterator<Item = Range<u64>>,
        piece: u64,
    ) -> Self {
        let piece = piece.min(from.geometry().max_io).min(to.geometry().max_io);
        Self {
            from,
            to,
            piece,
            left: ranges.into_iter().filter(|range| !range.is_empty()).collect(),
            pairs: Slab::new(),
            completions: Completions::default(),
            handle: CompareHandle::default(),
        }
    }

    pub(super) fn handle(&self) -> CompareHandle {
        self.handle.clone()
    }

    pub(super) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    pub(super) fn turn(&mut self, now: Time) {
        loop {
            while let Some(completion) = self.completions.take() {
                self.completed(completion);
            }
            self.submit(now);
            if self.completions.is_empty() {
                return;
            }
        }
    }

    fn submit(&mut self, now: Time) {
        while self.pairs.len() < DEPTH
            && let Some(range) = self.left.front_mut()
        {
            let (offset, length) = (range.start, (range.end - range.start).min(self.piece));
            range.start += length;
            if range.is_empty() {
                self.left.pop_front();
            }
            let tag = self.pairs.insert(Pair { offset, length, first: None }) as u64;
            for (side, device) in [&self.from, &self.to].into_iter().enumerate() {
                let caller = self.completions.caller(2 * tag + side as u64);
                device.submit(now, Request::new(caller, offset, Op::Read { length }));
            }
        }
        if self.pairs.is_empty() && self.left.is_empty() {
            self.finish(Ok(None));
        }
    }

    fn completed(&mut self, Completion { tag, result }: Completion) {
        let side = if tag % 2 == 0 { CopySide::Source } else { CopySide::Destination };
        let Some(pair) = self.pairs.get_mut((tag / 2) as usize) else { return };
        let (offset, length) = (pair.offset, pair.length);
        let wrong = || crate::error::Error::Failed("the device returned less than was read".into());
        let data = match result {
            Ok(Outcome::Data(data)) if data.len() as u64 == length => data,
            result => {
                let source = result.err().unwrap_or_else(wrong);
                self.pairs.remove((tag / 2) as usize);
                return self.finish(Err(CopyError::Device { side, offset, length, source }));
            }
        };
        let Some(first) = pair.first.take() else {
            pair.first = Some(data);
            return;
        };
        self.pairs.remove((tag / 2) as usize);
        if first.to_segment()[..] != data.to_segment()[..] {
            return self.finish(Ok(Some(offset)));
        }
        let mut state = self.handle.state.borrow_mut();
        state.done += length;
        if state.done > state.awaited
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
    }

    /// Ends the comparison; the first result counts. Reads in flight are ignored.
    fn finish(&mut self, result: Compared) {
        self.left.clear();
        let mut state = self.handle.state.borrow_mut();
        state.result.get_or_insert(result);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}
