//! Pauses: somebody who changes what the header or the object map says has the image to itself, with the lock.
//!
//! Changes wait meanwhile, like the lock for those who ask for it. After the pause header and object map are read again.

use crate::host::Host;
use crate::image::lock_state::LockState;
use crate::image::machine::OpenImage;
use crate::image::refresh_state::Waiter;
use crate::image::state::pauses::PauseState;
use crate::request::Outcome;
use onego_wire::Time;

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
    pub(in crate::image) fn settle_pauses(&mut self, host: &mut impl Host<T>) {
        let is_known = !self.refresh.is_in_flight && !self.lock.state.is_learning();
        if let PauseState::Ending(_) = self.pauses.state
            && is_known
            && let PauseState::Ending(token) = std::mem::replace(&mut self.pauses.state, PauseState::None)
        {
            host.finished(token, Ok(Outcome::Done));
        }
        let has_lock = !self.has_lock() || self.lock.state == LockState::Held;
        let is_idle = self.changing == 0 && self.is_map_idle() && !self.is_resizing();
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
