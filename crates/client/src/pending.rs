use crate::mailbox::Closed;
use futures_channel::oneshot;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Sender of requests to a reactor, which cancels abandoned ones.
pub(crate) trait Asker<T> {
    /// Handles an answer that the caller stopped waiting for. `late` is the answer if it arrived regardless.
    fn abandoned(&self, late: Option<T>);
}

/// A pending answer. Dropping it before the answer arrives cancels the request.
pub(crate) struct Pending<'a, T, A: Asker<T>> {
    asker: &'a A,
    answer: oneshot::Receiver<T>,
    has_ended: bool,
}

impl<'a, T, A: Asker<T>> Pending<'a, T, A> {
    pub(crate) fn new(asker: &'a A, answer: oneshot::Receiver<T>) -> Self {
        Self { asker, answer, has_ended: false }
    }
}

impl<T, A: Asker<T>> Future for Pending<'_, T, A> {
    type Output = Result<T, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        self.has_ended = answer.is_ready();
        answer.map_err(|_| Closed)
    }
}

impl<T, A: Asker<T>> Drop for Pending<'_, T, A> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.answer.close();
        self.asker.abandoned(self.answer.try_recv().ok().flatten());
    }
}
