//! Pauses: an operation that changes the header or the object map gets exclusive use of the image, with the lock.
//!
//! Changes, and requests of other clients for the lock, wait meanwhile. After the pause the header is read again and, unless
//! changes were in flight, the object map.

use crate::host::Host;
use crate::image::lock_state::LockState;
use crate::image::machine::OpenImage;
use crate::image::refresh_state::Waiter;
use crate::image::state::pauses::{PauseKind, PauseState, WaitingPause};
use crate::request::Outcome;
use onego_wire::Time;

impl<T> OpenImage<T> {
    /// Requests exclusive use of the image until [`resume`](Self::resume), for the operation with this number. Finishes `token`
    /// when the condition of `kind` is met and the lock, if any, is held.
    pub fn pause(&mut self, now: Time, host: &mut impl Host<T>, operation: u32, kind: PauseKind, token: T) {
        if let Err(error) = self.check_writable() {
            return host.finished(token, Err(error));
        }
        self.pauses.waiting.push_back(WaitingPause { operation, kind, token });
        self.process(now, host);
    }

    /// Ends a pause. Finishes `token` when the image has read the changed header.
    pub fn resume(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        let PauseState::Paused(kind) = self.pauses.state else {
            return host.finished(token, Ok(Outcome::Done));
        };
        self.pauses.state = PauseState::Ending(token);
        match kind {
            PauseKind::Exclusive => {
                if self.lock.state == LockState::Held && self.has_lock() {
                    self.set_lock(LockState::Refreshing);
                }
                self.refresh_for(host, Waiter::Lock);
            }
            PauseKind::Header => self.refresh_for(host, Waiter::None),
        }
        self.process(now, host);
    }

    pub(in crate::image) fn process_pauses(&mut self, host: &mut impl Host<T>) {
        let is_known = !self.refresh.is_in_flight && !self.lock.state.is_learning();
        if let PauseState::Ending(_) = self.pauses.state
            && is_known
            && let PauseState::Ending(token) = std::mem::replace(&mut self.pauses.state, PauseState::None)
        {
            host.finished(token, Ok(Outcome::Done));
        }
        let has_lock = !self.has_lock() || self.lock.state == LockState::Held;
        let is_idle = self.changing == 0 && self.is_map_idle();
        // A pause for the header only overtakes those that wait for changes.
        let next = |waiting: &WaitingPause<T>| is_idle || waiting.kind == PauseKind::Header;
        if matches!(self.pauses.state, PauseState::None)
            && is_known
            && !self.is_resizing()
            && has_lock
            && let Some(place) = self.pauses.waiting.iter().position(next)
            && let Some(next) = self.pauses.waiting.remove(place)
        {
            self.operations.commit(next.operation);
            self.pauses.state = PauseState::Paused(next.kind);
            host.finished(next.token, Ok(Outcome::Done));
        }
    }
}
