//! Futures that run side by side and end in order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Something that an image is asked for.
pub(super) type Asked<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures that run side by side and end in the order in which they were begun. Whoever begins them bounds their number.
pub(super) struct Ordered<T> {
    running: VecDeque<Running<T>>,
}

enum Running<T> {
    Asked(Asked<T>),
    Done(T),
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self { running: VecDeque::new() }
    }
}

impl<T> Ordered<T> {
    /// How many have been begun and not been taken.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Begins one. It runs while [`next`](Self::next) is waited for.
    pub(super) fn begin(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.running.push_back(Running::Asked(Box::pin(future)));
    }

    /// What came of the oldest; `None`: there is none.
    pub(super) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        for running in &mut self.running {
            if let Running::Asked(future) = running
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *running = Running::Done(done);
            }
        }
        match self.running.pop_front() {
            None => Poll::Ready(None),
            Some(Running::Done(done)) => Poll::Ready(Some(done)),
            Some(running) => {
                self.running.push_front(running);
                Poll::Pending
            }
        }
    }
}
