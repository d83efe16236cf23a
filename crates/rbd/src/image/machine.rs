//! State and inputs of an open image.

use super::lock_state::{Lock, LockState};
use super::map_state::MapInUse;
use super::refresh_state::{Refresh, Waiter};
use super::resize::Resize;
use super::running::{Gather, InflightIo, ObjectCopy};
use super::sealed_state::{Holds, SealedChange};
use super::state::pauses::Pauses;
use super::state::under_way::Operations;
use crate::data::Ancestor;
use crate::error::{Error, is_blocklisted};
use crate::facts::{ImageFacts, ImageView, Migration};
use crate::flush::{WriteEpoch, Writes};
use crate::host::{Host, Purpose, Ticket};
use crate::request::{Io, Outcome};
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{self, Error as ClientError, OpReply, WatchId, errno};
use onego_ceph::rbd::Features;
use onego_wire::Time;
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of writes that wait for the image's lock: the limit of tagged requests in flight.
const MAX_HELD: usize = 1 << 16;

pub(super) const WATCH_RETRY: Duration = Duration::from_secs(2);

/// An open image. `T` is the token that a caller gets back with its result.
///
/// The inputs are [`submit`](Self::submit) and the other methods; outputs go to the [`Host`] that each of them takes.
#[derive(Debug)]
pub struct OpenImage<T> {
    pub(super) facts: ImageFacts,
    pub(super) view: Arc<ImageView>,
    pub(super) ios: Slab<InflightIo<T>>,
    pub(super) writes: Writes<T>,
    pub(super) changing: usize,
    pub(super) is_open: bool,
    /// Something waits until nothing is in flight.
    pub(super) is_draining: bool,
    pub(super) held: VecDeque<Held<T>>,
    pub(super) fatal_error: Option<Error>,
    pub(super) watch: WatchState,
    pub(super) lock: Lock<T>,
    pub(super) map: Option<MapInUse>,
    /// Number of the last map that was loaded.
    pub(super) map_era: u32,
    pub(super) refresh: Refresh<T>,
    pub(super) ancestral: Slab<AncestralRead>,
    pub(super) copyups: BTreeMap<u64, ObjectCopy>,
    /// In-flight changes of encrypted data, by request and part.
    pub(super) sealed: BTreeMap<(u32, u32), SealedChange>,
    pub(super) holds: Holds,
    pub(super) resizes: VecDeque<Resize<T>>,
    pub(super) pauses: Pauses<T>,
    pub(super) operations: Operations,
    /// Set while the image is being moved here.
    pub(super) migration: Option<Migration>,
    pub(super) closing: Closing<T>,
    /// Closes without waiting for requests in flight.
    pub(super) is_leaving: bool,
}

#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) io: Io,
    pub(super) token: T,
    pub(super) epoch: WriteEpoch,
}

#[derive(Debug)]
pub(super) enum WatchState {
    Unneeded,
    Pending,
    Waiting(Time),
    Watching(WatchId),
    Ending,
    Ended,
}

#[derive(Debug)]
pub(super) struct AncestralRead {
    pub(super) ancestor: Arc<Ancestor>,
    pub(super) parts: Vec<AncestralPart>,
    /// An ancestor has an object for at least one part.
    pub(super) is_there: bool,
    pub(super) outstanding: u32,
    pub(super) error: Option<Error>,
    pub(super) target: AncestralTarget,
}

/// Part of a read of an ancestor: bytes of one object, or zeros past its overlap.
#[derive(Debug)]
pub(super) struct AncestralPart {
    pub(super) at: u64,
    pub(super) length: u64,
    /// Range of the part that is wanted: whole sectors are read of encrypted data.
    pub(super) wanted: Range<u64>,
    pub(super) bytes: List,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum AncestralTarget {
    Piece { io: u32, index: u32 },
    Part { read: u32, index: u32 },
    CopyUp { object: u64 },
}

#[derive(Debug)]
pub(super) enum Closing<T> {
    No,
    /// Closes once nothing is in flight.
    Yes(Vec<T>),
    Done,
}

impl<T> OpenImage<T> {
    /// Creates an image that is read without a watch, and not changed.
    pub fn read_only(facts: ImageFacts) -> Self {
        Self::new(facts, WatchState::Unneeded)
    }

    /// Creates an image with a watch. Finishes `token` when the watch is established and the header is read.
    pub fn watched(host: &mut impl Host<T>, facts: ImageFacts, token: T) -> Self {
        let mut image = Self::new(facts, WatchState::Pending);
        image.refresh.next.push(Waiter::Caller(token));
        host.watch(image.facts.header.clone(), Ticket(Purpose::Watch));
        image
    }

    fn new(facts: ImageFacts, watch: WatchState) -> Self {
        let view = Arc::new(ImageView::default());
        let size = facts.state.data_size(facts.data.start());
        view.set_size(size, size);
        Self {
            facts,
            view,
            ios: Slab::new(),
            writes: Writes::default(),
            changing: 0,
            is_open: false,
            is_draining: false,
            held: VecDeque::new(),
            fatal_error: None,
            watch,
            lock: Lock::default(),
            map: None,
            map_era: 0,
            refresh: Refresh::default(),
            ancestral: Slab::new(),
            copyups: BTreeMap::new(),
            sealed: BTreeMap::new(),
            holds: Holds::default(),
            resizes: VecDeque::new(),
            pauses: Pauses::default(),
            operations: Operations::default(),
            migration: None,
            closing: Closing::No,
            is_leaving: false,
        }
    }

    /// Returns the state that other threads may read.
    pub fn view(&self) -> &Arc<ImageView> {
        &self.view
    }

    /// Returns the watch of the header, if established.
    pub fn watch_id(&self) -> Option<WatchId> {
        match self.watch {
            WatchState::Watching(id) => Some(id),
            _ => None,
        }
    }

    /// Returns whether the image is closed and can be dropped.
    pub fn is_over(&self) -> bool {
        matches!(self.closing, Closing::Done)
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(self.closing, Closing::Yes(_))
    }

    /// Returns whether no request of a caller is in flight or held back.
    pub fn is_idle(&self) -> bool {
        self.ios.is_empty() && self.held.is_empty()
    }

    /// Returns whether the request with this ticket may be abandoned, because `unwanted` is true for its caller's token.
    ///
    /// Changes of an image with a lock continue nevertheless: the lock must not be released before they have ended.
    pub fn is_abandoned(&self, ticket: &Ticket, unwanted: impl Fn(&T) -> bool) -> bool {
        let Purpose::Piece { io, .. } = ticket.0 else { return false };
        let Some(running) = self.ios.get(io as usize) else { return false };
        (!running.is_change() || self.lock.state == LockState::Free) && unwanted(&running.token)
    }

    /// Drops changes that are held back whose tokens are unwanted.
    pub fn forget_where(&mut self, now: Time, host: &mut impl Host<T>, unwanted: impl Fn(&T) -> bool) {
        for held in std::mem::take(&mut self.held) {
            if unwanted(&held.token) {
                self.end_change(host, held.epoch, held.token, Err(ClientError::Cancelled.into()));
            } else {
                self.held.push_back(held);
            }
        }
        self.lock.takers.retain(|token| !unwanted(token));
        self.process(now, host);
    }

    /// Submits a request. Its bounds are checked now and, if it is held back, again when it goes out: the caller's view of the
    /// size may be stale.
    #[inline]
    pub fn submit(&mut self, now: Time, host: &mut impl Host<T>, io: Io, token: T) {
        if let Some(fatal_error) = &self.fatal_error {
            return host.finished(token, Err(fatal_error.clone()));
        }
        if let Err(error) = io.check(self.view.size())
            && (self.is_open || !io.writes())
        {
            return host.finished(token, Err(error));
        }
        match io {
            Io::Flush => {
                if let Some(token) = self.writes.flush(token) {
                    host.finished(token, Ok(Outcome::Done));
                }
            }
            io if !io.writes() => self.read(now, host, io, token),
            io if self.is_open => {
                let epoch = self.writes.begin();
                self.change(now, host, io, token, epoch);
            }
            io => self.hold(now, host, io, token),
        }
    }

    #[cold]
    fn hold(&mut self, now: Time, host: &mut impl Host<T>, io: Io, token: T) {
        if let Err(error) = self.check_writable() {
            return host.finished(token, Err(error));
        }
        if self.held.len() >= MAX_HELD {
            return host.finished(token, Err(Error::Busy(MAX_HELD)));
        }
        let epoch = self.writes.begin();
        self.held.push_back(Held { io, token, epoch });
        self.process(now, host);
    }

    /// Checks that the image accepts changes; fails with the reason if it does not.
    pub fn check_writable(&self) -> Result<(), Error> {
        if let Some(fatal_error) = &self.fatal_error {
            return Err(fatal_error.clone());
        }
        if matches!(self.watch, WatchState::Unneeded) || self.facts.is_snapshot() {
            return Err(Error::ReadOnly);
        }
        let moving = if self.migration.is_some() { Features::MIGRATING } else { Features::NONE };
        let unknown = self.facts.state.features.without(Features::WRITABLE.with(moving));
        if unknown.is_empty() { Ok(()) } else { Err(Error::Features(unknown)) }
    }

    /// Acquires the exclusive lock and keeps it until [`unlock`](Self::unlock), even when others request it. A no-op for an image
    /// without the feature.
    pub fn lock(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.lock.is_pinned |= self.has_lock() && self.check_writable().is_ok();
        self.own(now, host, token);
    }

    /// Acquires the exclusive lock for an operation and keeps it until [`release_hold`](Self::release_hold). Requests of other
    /// clients are not refused: they and their writes wait.
    pub fn hold_lock(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.lock.holders += 1;
        self.own(now, host, token);
    }

    /// Ends an operation that has called [`hold_lock`](Self::hold_lock), whatever its result.
    pub fn release_hold(&mut self, now: Time, host: &mut impl Host<T>) {
        self.lock.holders = self.lock.holders.saturating_sub(1);
        self.process(now, host);
    }

    /// Acquires the exclusive lock as a change does: it is released when others request it.
    pub fn own(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        match self.check_writable() {
            Err(error) => host.finished(token, Err(error)),
            Ok(()) if !self.has_lock() => host.finished(token, Ok(Outcome::Done)),
            Ok(()) => {
                self.lock.takers.push(token);
                self.process(now, host);
            }
        }
    }

    /// Fails all requests from now on, as if the cluster had blocklisted this client. Finishes `token` once no change is in
    /// flight: then the lock may be broken, without cutting a connection that others share.
    pub fn fence(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.poison(Error::Blocklisted);
        self.lock.fencers.push(token);
        self.process(now, host);
    }

    /// Releases the exclusive lock. The next change acquires it again.
    pub fn unlock(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.lock.is_pinned = false;
        if self.fatal_error.is_some() || !self.lock.state.is_owned() {
            return host.finished(token, Ok(Outcome::Done));
        }
        self.lock.leavers.push(token);
        self.process(now, host);
    }

    /// Reads the header again.
    pub fn refresh(&mut self, host: &mut impl Host<T>, token: T) {
        match &self.fatal_error {
            Some(fatal_error) => host.finished(token, Err(fatal_error.clone())),
            None => self.refresh_for(host, Waiter::Caller(token)),
        }
    }

    /// Closes the image: drains requests in flight, releases the lock and ends the watch.
    pub fn close(&mut self, now: Time, host: &mut impl Host<T>, token: Option<T>) {
        match &mut self.closing {
            Closing::No => self.closing = Closing::Yes(token.into_iter().collect()),
            Closing::Yes(tokens) => tokens.extend(token),
            Closing::Done => {
                if let Some(token) = token {
                    host.finished(token, Ok(Outcome::Done));
                }
            }
        }
        self.process(now, host);
    }

    /// Closes the image without draining requests in flight: a full cluster may never complete them.
    pub fn leave(&mut self, now: Time, host: &mut impl Host<T>) {
        self.is_leaving = true;
        self.close(now, host, None);
    }

    /// Handles the completion of a request of the machine.
    #[inline]
    pub fn completed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        ticket: Ticket,
        outcome: Result<client::Outcome, ClientError>,
        buffer: Option<SegmentMut>,
    ) {
        match ticket.0 {
            Purpose::Piece { io, index } => self.piece_completed(now, host, io, index, outcome, buffer),
            other => self.step_completed(now, host, other, outcome),
        }
    }

    #[cold]
    fn step_completed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        purpose: Purpose,
        outcome: Result<client::Outcome, ClientError>,
    ) {
        let refused = match &outcome {
            Ok(client::Outcome::Reply(reply)) => reply.result == errno::ESHUTDOWN,
            Ok(_) => false,
            Err(error) => is_blocklisted(error),
        };
        if refused && !matches!(purpose, Purpose::Unwatch) {
            self.poison(Error::Blocklisted);
        }
        match purpose {
            Purpose::Piece { .. } | Purpose::Ignored => {}
            Purpose::Ancestral { read, index } => self.part_completed(now, host, read, index, outcome),
            Purpose::CopyUp { object } => self.copied_up(now, host, object, reply(outcome)),
            Purpose::Mark { object, snap } => self.marked(host, object, snap, &reply(outcome)),
            Purpose::Watch => self.watched_or_not(now, host, outcome),
            Purpose::Unwatch => self.watch = WatchState::Ended,
            Purpose::Refresh => self.refreshed(host, reply(outcome)),
            Purpose::Lock { step } if step == self.lock.step => self.lock_step(now, host, outcome),
            Purpose::Lock { .. } => {}
            Purpose::Cookie => self.renamed(host, reply(outcome)),
            Purpose::MapUpdate { object, era } => self.map_updated(host, object, era, reply(outcome)),
            Purpose::MapInvalid => self.map_is_invalid(host, reply(outcome)),
            Purpose::Resize => self.resize_step(host, reply(outcome)),
            Purpose::Progress { number } => self.progress_told(host, number),
            Purpose::OperationEnd { id, result, attempts } => {
                let is_known =
                    matches!(&outcome, Ok(client::Outcome::Notified(told)) if told.missed.is_empty());
                self.end_told(host, (id, result, attempts), is_known);
            }
        }
        self.process(now, host);
    }

    /// Handles the timer that was set by [`Host::wake_at`].
    pub fn due(&mut self, now: Time, host: &mut impl Host<T>) {
        if let LockState::Waiting(at) = self.lock.state
            && at <= now
        {
            self.set_lock(LockState::Free);
        }
        if let WatchState::Waiting(at) = self.watch
            && at <= now
        {
            self.watch = WatchState::Pending;
            host.watch(self.facts.header.clone(), Ticket(Purpose::Watch));
        }
        self.process(now, host);
    }

    /// Returns the time at which [`due`](Self::due) must be called.
    pub fn deadline(&self) -> Option<Time> {
        let lock = if let LockState::Waiting(at) = self.lock.state { Some(at) } else { None };
        let watch = if let WatchState::Waiting(at) = self.watch { Some(at) } else { None };
        lock.into_iter().chain(watch).min()
    }

    pub(super) fn has_lock(&self) -> bool {
        self.facts.state.features.contains(Features::EXCLUSIVE_LOCK)
    }

    pub(super) fn process(&mut self, now: Time, host: &mut impl Host<T>) {
        if self.fatal_error.is_some() {
            self.fail_waiters(host);
            if self.changing == 0 {
                self.lock.fencers.drain(..).for_each(|token| host.finished(token, Ok(Outcome::Done)));
            }
        }
        self.process_pauses(host);
        self.process_lock(host);
        self.process_resize(host);
        self.is_open = self.may_write();
        // Changes that end within the loop must not start another one.
        self.is_draining = false;
        let held = self.held.len();
        while self.is_open
            && let Some(Held { io, token, epoch }) = self.held.pop_front()
        {
            match io.check(self.view.size()) {
                Ok(()) => self.change(now, host, io, token, epoch),
                Err(error) => self.end_change(host, epoch, token, Err(error)),
            }
        }
        if self.held.len() < held {
            self.process_lock(host);
            self.is_open = self.may_write();
        }
        self.process_close(host);
        self.is_draining = self.is_closing()
            || self.is_resizing()
            || self.pauses.is_any()
            || self.lock.state == LockState::Draining;
    }

    fn may_write(&self) -> bool {
        let is_ready = match self.has_lock() {
            true => self.lock.state == LockState::Held,
            false => matches!(self.watch, WatchState::Watching(_)),
        };
        is_ready
            && self.fatal_error.is_none()
            && !self.is_resizing()
            && !self.pauses.is_any()
            && !self.refresh.is_in_flight
            && self.map.as_ref().is_none_or(|map| !map.is_failing)
            && self.check_writable().is_ok()
    }

    /// Ends a change, even one that was never sent.
    pub(super) fn end_change(
        &mut self,
        host: &mut impl Host<T>,
        epoch: WriteEpoch,
        token: T,
        result: Result<Outcome, Error>,
    ) {
        let flushes = self.writes.end(epoch);
        host.finished(token, result);
        flushes.into_iter().for_each(|flush| host.finished(flush, Ok(Outcome::Done)));
    }

    #[inline]
    pub(super) fn finish(&mut self, now: Time, host: &mut impl Host<T>, io: u32) {
        let InflightIo { token, error, gather, .. } = self.ios.remove(io as usize);
        let error =
            error.map(|error| if error.is_blocklisted() { self.poison(Error::Blocklisted) } else { error });
        match gather {
            Gather::Changes { epoch, .. } => {
                self.changing -= 1;
                let result = error.map_or(Ok(Outcome::Done), Err);
                self.end_change(host, epoch, token, result);
            }
            gather => host.finished(token, error.map_or_else(|| gather.outcome(), Err)),
        }
        if self.is_draining || self.fatal_error.is_some() {
            self.process(now, host);
        }
    }

    /// Poisons the image: all further requests fail with `error`.
    #[cold]
    pub(super) fn poison(&mut self, error: Error) -> Error {
        tracing::error!(image = self.facts.id, %error, "an image failed");
        self.fatal_error.get_or_insert(error).clone()
    }
}

pub(super) fn reply(outcome: Result<client::Outcome, ClientError>) -> Result<OpReply, ClientError> {
    match outcome? {
        client::Outcome::Reply(reply) => reply.ok(),
        _ => Err(ClientError::Mismatch("it is of another kind")),
    }
}

pub(super) fn errno_of<R>(result: &Result<R, ClientError>) -> i32 {
    result.as_ref().err().map_or(0, ClientError::errno)
}
