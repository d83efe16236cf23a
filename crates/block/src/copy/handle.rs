//! Progress and result of a copy.

use super::error::CopyError;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyProgress {
    /// All bytes before this offset are copied.
    pub done: u64,
    /// Bytes written as data.
    pub data: u64,
    /// Zeros that were skipped or written as zeroes.
    pub zeros: u64,
}

#[derive(Default)]
pub(super) struct CopyState {
    pub(super) progress: CopyProgress,
    pub(super) result: Option<Result<(), CopyError>>,
    /// Waker to call once `done` exceeds the offset, or the copy has ended.
    waiting: Option<(u64, Waker)>,
}

impl CopyState {
    pub(super) fn changed(&mut self) {
        let is_due = |beyond: u64| self.result.is_some() || self.progress.done > beyond;
        if self.waiting.as_ref().is_some_and(|(beyond, _)| is_due(*beyond))
            && let Some((_, waker)) = self.waiting.take()
        {
            waker.wake();
        }
    }
}

/// A copy in progress. Dropping it does not end the copy.
#[derive(Clone)]
pub struct CopyHandle {
    pub(super) state: Rc<RefCell<CopyState>>,
}

impl fmt::Debug for CopyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopyHandle").field(&self.progress()).finish()
    }
}

impl CopyHandle {
    /// Returns the progress.
    pub fn progress(&self) -> CopyProgress {
        self.state.borrow().progress
    }

    /// Returns the result; `None` if the copy has not ended.
    pub fn result(&self) -> Option<Result<(), CopyError>> {
        self.state.borrow().result.clone()
    }

    /// Waits until bytes beyond `byte` are copied, or the copy has ended.
    pub async fn beyond(&self, byte: u64) {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.result.is_some() || state.progress.done > byte {
                return Poll::Ready(());
            }
            state.waiting = Some((byte, cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
