//! Answers that are waited for. A caller that stops waiting takes back what it asked for.

use crate::mailbox::Closed;
use futures_channel::oneshot;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Asks a reactor, and has it cancel what nobody waits for any more.
pub(crate) trait Asker<T> {
    /// The caller has stopped waiting for an answer. `late`: the answer, if it had come all the same.
    fn abandoned(&self, late: Option<T>);
}

/// An answer under way. Dropping it before the answer is here cancels what was asked for.
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
