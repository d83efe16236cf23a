//! Pauses: somebody who changes what the header or the object map says has the image to itself, with the lock.
//!
//! Changes wait meanwhile, like the lock for those who ask for it. After the pause header and object map are read again.

use super::lock_state::LockState;
use super::machine::OpenImage;
use super::refresh_state::Waiter;
use crate::host::Host;
use crate::request::Outcome;
use onego_wire::Time;
use std::collections::VecDeque;

/// The pauses of an image: one at a time, in the order in which they were asked for.
#[derive(Debug)]
pub(super) struct Pauses<T> {
    /// Numbers of the operations that wait, with the tokens of their callers.
    waiting: VecDeque<(u32, T)>,
    state: PauseState<T>,
}

#[derive(Debug)]
enum PauseState<T> {
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
    pub(super) fn is_any(&self) -> bool {
        !self.waiting.is_empty() || !matches!(self.state, PauseState::None)
    }

    /// Does somebody have the image to itself?
    pub(super) fn is_paused(&self) -> bool {
        !matches!(self.state, PauseState::None)
    }

    /// An operation that waits is broken off.
    pub(super) fn forget(&mut self, operation: u32) {
        self.waiting.retain(|(waiting, _)| *waiting != operation);
    }

    /// Gives all up. The tokens are those of callers that wait.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = T> {
        let ending = match std::mem::replace(&mut self.state, PauseState::None) {
            PauseState::Ending(token) => Some(token),
            PauseState::None | PauseState::Paused => None,
        };
        std::mem::take(&mut self.waiting).into_iter().map(|(_, token)| token).chain(ending)
    }
}

impl<T> OpenImage<T> {
    /// The operation with this number wants the image to itself until [`resume`](Self::resume): `token` is finished when no change is in flight any more and,
    /// where there is one, the lock is held.
    pub fn pause(&mut self, now: Time, host: &mut impl Host<T>, operation: u32, token: T) {
        if let Err(error) = self.check_writable() {
            return host.finished(token, Err(error));
        }
        self.pauses.waiting.push_back((operation, token));
        self.settle(now, host);
    }

    /// Ends a pause: `token` is finished when the image knows what has changed.
    pub fn resume(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        if !matches!(self.pauses.state, PauseState::Paused) {
            return host.finished(token, Ok(Outcome::Done));
        }
        self.pauses.state = PauseState::Ending(token);
        if self.lock.state == LockState::Held && self.has_lock() {
            self.set_lock(LockState::Refreshing);
        }
        self.refresh_for(host, Waiter::Lock);
        self.settle(now, host);
    }

    /// Goes on with the pauses.
    pub(super) fn settle_pauses(&mut self, host: &mut impl Host<T>) {
        let is_known = !self.refresh.is_in_flight && !self.lock.state.is_learning();
        if let PauseState::Ending(_) = self.pauses.state
            && is_known
            && let PauseState::Ending(token) = std::mem::replace(&mut self.pauses.state, PauseState::None)
        {
            host.finished(token, Ok(Outcome::Done));
        }
        let has_lock = !self.has_lock() || self.lock.state == LockState::Held;
        let is_idle = self.changing == 0 && self.is_map_idle() && self.resize.is_none();
        if matches!(self.pauses.state, PauseState::None)
            && is_known
            && is_idle
            && has_lock
            && let Some((operation, token)) = self.pauses.waiting.pop_front()
        {
            self.operations.commit(operation);
            self.pauses.state = PauseState::Paused;
            host.finished(token, Ok(Outcome::Done));
        }
    }
}
