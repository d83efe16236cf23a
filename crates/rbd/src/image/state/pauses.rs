//! The pauses of an image, and who waits for one.

use std::collections::VecDeque;

/// What an operation needs of an image that is paused for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseKind {
    /// No change is in flight, and the object map is read again afterwards.
    Exclusive,
    /// Changes that were begun before may go on, because the operation changes nothing that they rely on: a full cluster may not
    /// let them end before the operation has.
    Header,
}

/// An operation that waits for its pause.
#[derive(Debug)]
pub(in crate::image) struct WaitingPause<T> {
    /// Its number.
    pub(in crate::image) operation: u32,
    pub(in crate::image) kind: PauseKind,
    /// That of its caller.
    pub(in crate::image) token: T,
}

/// The pauses of an image: one at a time, in the order in which they were asked for where their kinds
/// allow.
#[derive(Debug)]
pub(in crate::image) struct Pauses<T> {
    pub(in crate::image) waiting: VecDeque<WaitingPause<T>>,
    pub(in crate::image) state: PauseState<T>,
}

/// How far a pause is.
#[derive(Debug)]
pub(in crate::image) enum PauseState<T> {
    None,
    Paused(PauseKind),
    /// The pause is over as soon as what has changed is known. The token is that of the caller that waits for it.
    Ending(T),
}

impl<T> Default for Pauses<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), state: PauseState::None }
    }
}

impl<T> Pauses<T> {
    /// Is the image paused, or does somebody wait for that?
    #[inline]
    pub(in crate::image) fn is_any(&self) -> bool {
        !self.waiting.is_empty() || !matches!(self.state, PauseState::None)
    }

    /// Does somebody have the image to itself?
    pub(in crate::image) fn is_paused(&self) -> bool {
        !matches!(self.state, PauseState::None)
    }

    /// An operation that waits is broken off.
    pub(in crate::image) fn forget(&mut self, operation: u32) {
        self.waiting.retain(|waiting| waiting.operation != operation);
    }

    /// Gives all up. The tokens are those of callers that wait.
    pub(in crate::image) fn give_up(&mut self) -> impl Iterator<Item = T> {
        let ending = match std::mem::replace(&mut self.state, PauseState::None) {
            PauseState::Ending(token) => Some(token),
            PauseState::None | PauseState::Paused(_) => None,
        };
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.token).chain(ending)
    }
}
