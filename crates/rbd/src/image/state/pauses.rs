//! State of an image's pauses.

use std::collections::VecDeque;

/// Degree of isolation that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseKind {
    /// No change is in flight, and the object map is read again afterwards.
    Exclusive,
    /// Changes in flight may continue: the operation changes nothing that they rely on, and on a full cluster they may not
    /// complete before it.
    Header,
}

#[derive(Debug)]
pub(in crate::image) struct WaitingPause<T> {
    pub(in crate::image) operation: u32,
    pub(in crate::image) kind: PauseKind,
    pub(in crate::image) token: T,
}

/// Pauses of an image: one at a time, in the order of the requests unless a kind can overtake others.
#[derive(Debug)]
pub(in crate::image) struct Pauses<T> {
    pub(in crate::image) waiting: VecDeque<WaitingPause<T>>,
    pub(in crate::image) state: PauseState<T>,
}

#[derive(Debug)]
pub(in crate::image) enum PauseState<T> {
    None,
    Paused(PauseKind),
    /// Waits for the refresh after the pause. The token is the caller's.
    Ending(T),
}

impl<T> Default for Pauses<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), state: PauseState::None }
    }
}

impl<T> Pauses<T> {
    /// Returns whether the image is paused, or a pause is requested.
    #[inline]
    pub(in crate::image) fn is_any(&self) -> bool {
        !self.waiting.is_empty() || !matches!(self.state, PauseState::None)
    }

    pub(in crate::image) fn is_paused(&self) -> bool {
        !matches!(self.state, PauseState::None)
    }

    pub(in crate::image) fn forget(&mut self, operation: u32) {
        self.waiting.retain(|waiting| waiting.operation != operation);
    }

    /// Ends all pauses. Returns the tokens of waiting callers.
    pub(in crate::image) fn give_up(&mut self) -> impl Iterator<Item = T> {
        let ending = match std::mem::replace(&mut self.state, PauseState::None) {
            PauseState::Ending(token) => Some(token),
            PauseState::None | PauseState::Paused(_) => None,
        };
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.token).chain(ending)
    }
}
