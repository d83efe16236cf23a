//! The watch of the header, and the end of an image.

use super::lock_state::LockState;
use super::machine::{Closing, OpenImage, WATCH_RETRY, WatchState};
use super::refresh_state::Waiter;
use crate::error::Error;
use crate::host::{Host, Purpose, Ticket};
use crate::request::Outcome;
use onego_ceph::client::{self, Error as ClientError, WatchId, errno};
use onego_wire::Time;

impl<T> OpenImage<T> {
    pub(super) fn watched_or_not(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        outcome: Result<client::Outcome, ClientError>,
    ) {
        let error = match outcome {
            Ok(client::Outcome::Watching(watch)) => {
                self.watch = WatchState::Watching(watch);
                // The header may have changed since the last read, before the watch was established.
                return self.refresh_for(host, Waiter::None);
            }
            Ok(_) => ClientError::Mismatch("it is of another kind"),
            Err(error) => error,
        };
        if error.errno() == errno::ENOENT {
            self.poison(Error::Removed);
        }
        // A caller that opens the image gets the error. An image that is already open retries.
        let is_opening = self.refresh.next.iter().any(|waiter| matches!(waiter, Waiter::Caller(_)));
        if self.fatal_error.is_some() || is_opening {
            self.watch = WatchState::Ended;
            self.poison(error.into());
        } else {
            self.watch = WatchState::Waiting(now + WATCH_RETRY);
            host.wake_at(now + WATCH_RETRY);
        }
    }

    /// Handles the loss of the watch: notifications may have been missed, and others may consider this client dead.
    pub fn watch_lost(&mut self, now: Time, host: &mut impl Host<T>, watch: WatchId, error: &ClientError) {
        if self.watch_id() != Some(watch) {
            return;
        }
        tracing::warn!(image = self.facts.id, %error, "lost the watch of an image");
        host.unwatch(watch, Ticket(Purpose::Ignored));
        if crate::error::is_blocklisted(error) {
            self.watch = WatchState::Ended;
            self.poison(Error::Blocklisted);
        } else {
            self.watch = WatchState::Pending;
            host.watch(self.facts.header.clone(), Ticket(Purpose::Watch));
        }
        self.process(now, host);
    }

    pub(super) fn fail_waiters(&mut self, host: &mut impl Host<T>) {
        let Some(fatal_error) = self.fatal_error.clone() else { return };
        while let Some(held) = self.held.pop_front() {
            self.end_change(host, held.epoch, held.token, Err(fatal_error.clone()));
        }
        self.set_lock(LockState::Free);
        let lock = &mut self.lock;
        lock.step += 1;
        lock.takers.drain(..).for_each(|token| host.finished(token, Err(fatal_error.clone())));
        lock.leavers.drain(..).for_each(|token| host.finished(token, Ok(Outcome::Done)));
        self.pauses.give_up().for_each(|token| host.finished(token, Err(fatal_error.clone())));
        self.break_operations_off(host);
        self.fail_resizes(host, &fatal_error);
        let refresh = &mut self.refresh;
        for waiter in refresh.current.drain(..).chain(refresh.next.drain(..)) {
            if let Waiter::Caller(token) = waiter {
                host.finished(token, Err(fatal_error.clone()));
            }
        }
        // Requests that wait for the map fail like those in flight: the cluster refuses them.
        self.drop_map(host);
    }

    pub(super) fn process_close(&mut self, host: &mut impl Host<T>) {
        if self.is_closing() && !self.operations.is_idle() {
            self.break_operations_off(host);
        }
        let is_busy = !self.is_idle() || self.is_resizing() || !self.operations.is_idle();
        // Without a lock, the close need not wait for requests in flight.
        let must_wait = is_busy && !self.is_leaving && self.has_lock() || self.refresh.is_in_flight;
        if !self.is_closing() || must_wait {
            return;
        }
        match self.watch {
            // With changes in flight the lock stays: another client finds its owner gone, and blocklists it first.
            WatchState::Watching(watch) if self.lock.state == LockState::Free || is_busy => {
                self.watch = WatchState::Ending;
                host.unwatch(watch, Ticket(Purpose::Unwatch));
            }
            WatchState::Unneeded | WatchState::Ended | WatchState::Waiting(_) => {
                let is_over = !is_busy || self.is_leaving;
                let next = if is_over { Closing::Done } else { Closing::Yes(Vec::new()) };
                if let Closing::Yes(tokens) = std::mem::replace(&mut self.closing, next) {
                    tokens.into_iter().for_each(|token| host.finished(token, Ok(Outcome::Done)));
                }
            }
            WatchState::Watching(_) | WatchState::Pending | WatchState::Ending => {}
        }
    }
}
