//! The pauses of an image, and who waits for one.

use std::collections::VecDeque;

/// The pauses of an image: one at a time, in the order in which they were asked for.
#[derive(Debug)]
pub(in crate::image) struct Pauses<T> {
    /// Numbers of the operations that wait, with the tokens of their callers.
    pub(in crate::image) waiting: VecDeque<(u32, T)>,
    pub(in crate::image) state: PauseState<T>,
}

/// How far a pause is.
#[derive(Debug)]
pub(in crate::image) enum PauseState<T> {
    None,
    Paused,
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
        self.waiting.retain(|(waiting, _)| *waiting != operation);
    }

    /// Gives all up. The tokens are those of callers that wait.
    pub(in crate::image) fn give_up(&mut self) -> impl Iterator<Item = T> {
        let ending = match std::mem::replace(&mut self.state, PauseState::None) {
            PauseState::Ending(token) => Some(token),
            PauseState::None | PauseState::Paused => None,
        };
        std::mem::take(&mut self.waiting).into_iter().map(|(_, token)| token).chain(ending)
    }
}
