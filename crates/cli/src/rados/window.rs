//! Requests in flight: several at a time, the oldest first.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Requests under way and results that were not taken yet, in the order in which they were made.
pub(super) struct Window<'a, T> {
    entries: VecDeque<InFlight<'a, T>>,
    /// As many are under way at most.
    size: usize,
}

enum InFlight<'a, T> {
    Pending(Pin<Box<dyn Future<Output = T> + 'a>>),
    Done(T),
}

impl<'a, T> Window<'a, T> {
    pub(super) fn new(size: usize) -> Self {
        Self { entries: VecDeque::with_capacity(size), size }
    }

    /// Is there room for one more?
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.size
    }

    /// Begins a request. The caller sees to it that there is room.
    pub(super) fn begin(&mut self, request: impl Future<Output = T> + 'a) {
        self.entries.push_back(InFlight::Pending(Box::pin(request)));
    }

    /// Waits for the oldest request; `None`: there is none. All others go on meanwhile.
    pub(super) async fn oldest(&mut self) -> Option<T> {
        poll_fn(|context| {
            self.advance(context);
            match self.entries.front() {
                None => Poll::Ready(None),
                Some(InFlight::Pending(_)) => Poll::Pending,
                Some(InFlight::Done(_)) => match self.entries.pop_front() {
                    Some(InFlight::Done(result)) => Poll::Ready(Some(result)),
                    _ => Poll::Ready(None),
                },
            }
        })
        .await
    }

    /// The result of any request; `None`: there is none. All others go on meanwhile.
    pub(super) fn poll_any(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.advance(context);
        let done = self.entries.iter().position(|entry| matches!(entry, InFlight::Done(_)));
        match done.and_then(|index| self.entries.remove(index)) {
            Some(InFlight::Done(result)) => Poll::Ready(Some(result)),
            _ if self.entries.is_empty() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        for entry in &mut self.entries {
            if let InFlight::Pending(request) = entry
                && let Poll::Ready(result) = request.as_mut().poll(context)
            {
                *entry = InFlight::Done(result);
            }
        }
    }
}
