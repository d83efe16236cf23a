//! The state of an open image, and what it can be given.

use super::lock_state::{Lock, LockState};
use super::map_state::MapInUse;
use super::refresh_state::{Refresh, Waiter};
use super::resize::Resize;
use super::running::{Gather, ObjectCopy, Running};
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

/// Writes that may wait for the image's lock: as many as tagged requests may be in flight.
const MAX_HELD: usize = 1 << 16;

/// Time until a watch that cannot be established is tried again.
pub(super) const WATCH_RETRY: Duration = Duration::from_secs(2);

/// One open image. `T` is what a caller gets back with its result.
///
/// What it is given is in [`submit`](Self::submit) and the methods behind it; what it wants goes to the [`Host`] that each
/// of them takes.
#[derive(Debug)]
pub struct OpenImage<T> {
    pub(super) facts: ImageFacts,
    pub(super) view: Arc<ImageView>,
    pub(super) ios: Slab<Running<T>>,
    pub(super) writes: Writes<T>,
    /// Changes in flight.
    pub(super) changing: usize,
    /// Changes go out at once.
    pub(super) is_open: bool,
    /// Something waits for the end of what is in flight.
    pub(super) is_draining: bool,
    /// Changes that wait until they may go out.
    pub(super) held: VecDeque<Held<T>>,
    pub(super) death: Option<Error>,
    pub(super) watch: WatchState,
    pub(super) lock: Lock<T>,
    pub(super) map: Option<MapInUse>,
    /// Number of the last map that was opened.
    pub(super) map_era: u32,
    pub(super) refresh: Refresh<T>,
    pub(super) ancestral: Slab<AncestralRead>,
    pub(super) copyups: BTreeMap<u64, ObjectCopy>,
    /// Changes of encrypted data under way, by request and part.
    pub(super) sealed: BTreeMap<(u32, u32), SealedChange>,
    pub(super) holds: Holds,
    /// The first is under way.
    pub(super) resizes: VecDeque<Resize<T>>,
    pub(super) pauses: Pauses<T>,
    pub(super) operations: Operations,
    /// The image is being moved here.
    pub(super) migration: Option<Migration>,
    pub(super) closing: Closing<T>,
    /// Nobody waits for what is in flight.
    pub(super) is_leaving: bool,
}

/// A change that waits.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) io: Io,
    pub(super) token: T,
    pub(super) epoch: WriteEpoch,
}

/// The watch of the header.
#[derive(Debug)]
pub(super) enum WatchState {
    /// The image is only read, and nobody need know.
    Unneeded,
    /// It is being established.
    Pending,
    /// It could not be established: it is tried again at that time.
    Waiting(Time),
    /// It stands.
    Watching(WatchId),
    /// It is being given up.
    Ending,
    /// It is no more.
    Ended,
}

/// A read of bytes that an ancestor of the image has.
#[derive(Debug)]
pub(super) struct AncestralRead {
    pub(super) ancestor: Arc<Ancestor>,
    pub(super) parts: Vec<AncestralPart>,
    /// An ancestor has an object for any of them.
    pub(super) is_there: bool,
    pub(super) outstanding: u32,
    pub(super) error: Option<Error>,
    pub(super) target: AncestralTarget,
}

/// A part of a read of an ancestor: bytes of one object, or zeros that no object has.
#[derive(Debug)]
pub(super) struct AncestralPart {
    /// First byte, within the ancestor's image.
    pub(super) at: u64,
    pub(super) length: u64,
    /// What is wanted of it: of encrypted data, whole sectors are read.
    pub(super) wanted: Range<u64>,
    pub(super) bytes: List,
}

/// Whom an ancestor's bytes are for.
#[derive(Debug, Clone, Copy)]
pub(super) enum AncestralTarget {
    /// A piece of a caller's read.
    Piece { io: u32, index: u32 },
    /// A part of a read of a nearer ancestor.
    Part { read: u32, index: u32 },
    /// An object that is written for the first time.
    CopyUp { object: u64 },
}

/// How far the image is with its end.
#[derive(Debug)]
pub(super) enum Closing<T> {
    No,
    /// It ends when nothing is in flight any more.
    Yes(Vec<T>),
    Done,
}

impl<T> OpenImage<T> {
    /// An image that is read without others knowing of it, and not changed.
    pub fn read_only(facts: ImageFacts) -> Self {
        Self::new(facts, WatchState::Unneeded)
    }

    /// Opens an image: `token` is finished when it is watched and its header known.
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
            death: None,
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

    /// What other threads may see of it.
    pub fn view(&self) -> &Arc<ImageView> {
        &self.view
    }

    /// The watch of its header, if it stands.
    pub fn watch_id(&self) -> Option<WatchId> {
        match self.watch {
            WatchState::Watching(id) => Some(id),
            _ => None,
        }
    }

    /// Is it closed, so that it can be forgotten?
    pub fn is_over(&self) -> bool {
        matches!(self.closing, Closing::Done)
    }

    /// Is it on the way to its end?
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.closing, Closing::Yes(_))
    }

    /// Is nothing that callers wait for in flight?
    pub fn is_idle(&self) -> bool {
        self.ios.is_empty() && self.held.is_empty()
    }

    /// Is the request with this ticket one that nobody waits for any more? `unwanted` says so of tokens.
    ///
    /// Changes of an image with a lock go on all the same: the lock must not be let go before they have ended.
    pub fn is_abandoned(&self, ticket: &Ticket, unwanted: impl Fn(&T) -> bool) -> bool {
        let Purpose::Piece { io, .. } = ticket.0 else { return false };
        let Some(running) = self.ios.get(io as usize) else { return false };
        (!running.is_change() || self.lock.state == LockState::Free) && unwanted(&running.token)
    }

    /// Forgets the changes that wait, and that nobody waits for any more.
    pub fn forget_where(&mut self, now: Time, host: &mut impl Host<T>, unwanted: impl Fn(&T) -> bool) {
        for held in std::mem::take(&mut self.held) {
            if unwanted(&held.token) {
                self.end_change(host, held.epoch, held.token, Err(ClientError::Cancelled.into()));
            } else {
                self.held.push_back(held);
            }
        }
        self.lock.takers.retain(|token| !unwanted(token));
        self.settle(now, host);
    }

    /// Takes a request. Its bounds are checked here and, if it is held back, when it is released: the caller's view of the size
    /// may be out of date.
    #[inline]
    pub fn submit(&mut self, now: Time, host: &mut impl Host<T>, io: Io, token: T) {
        if let Some(death) = &self.death {
            return host.finished(token, Err(death.clone()));
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

    /// Keeps a change until it may go out.
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
        self.settle(now, host);
    }

    /// Fails with the reason for which the image takes no changes.
    pub fn check_writable(&self) -> Result<(), Error> {
        if let Some(death) = &self.death {
            return Err(death.clone());
        }
        if matches!(self.watch, WatchState::Unneeded) || self.facts.is_snapshot() {
            return Err(Error::ReadOnly);
        }
        let moving = if self.migration.is_some() { Features::MIGRATING } else { Features::NONE };
        let unknown = self.facts.state.features.without(Features::WRITABLE.with(moving));
        if unknown.is_empty() { Ok(()) } else { Err(Error::Features(unknown)) }
    }

    /// Takes the exclusive lock and keeps it until [`unlock`](Self::unlock), also when others ask for it. An image without the
    /// feature has nothing to lock.
    pub fn lock(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.lock.is_pinned |= self.has_lock() && self.check_writable().is_ok();
        self.own(now, host, token);
    }

    /// Takes the exclusive lock for an operation and keeps it until [`release_hold`](Self::release_hold). Others that ask for the
    /// lock are not refused: they and their writes wait.
    pub fn hold_lock(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.lock.holders += 1;
        self.own(now, host, token);
    }

    /// Ends an operation that has called [`hold_lock`](Self::hold_lock), with whatever result.
    pub fn release_hold(&mut self, now: Time, host: &mut impl Host<T>) {
        self.lock.holders = self.lock.holders.saturating_sub(1);
        self.settle(now, host);
    }

    /// Takes the exclusive lock as a change does: it is let go when others ask for it.
    pub fn own(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        match self.check_writable() {
            Err(error) => host.finished(token, Err(error)),
            Ok(()) if !self.has_lock() => host.finished(token, Ok(Outcome::Done)),
            Ok(()) => {
                self.lock.takers.push(token);
                self.settle(now, host);
            }
        }
    }

    /// Has the image fail from now on as if the cluster had shut this client out. It ends when no change is in flight any more:
    /// then the lock may be broken, with no connection cut that others share.
    pub fn fence(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.die(Error::Blocklisted);
        self.lock.fencers.push(token);
        self.settle(now, host);
    }

    /// Lets the exclusive lock go. The next change takes it again.
    pub fn unlock(&mut self, now: Time, host: &mut impl Host<T>, token: T) {
        self.lock.is_pinned = false;
        if self.death.is_some() || !self.lock.state.is_owned() {
            return host.finished(token, Ok(Outcome::Done));
        }
        self.lock.leavers.push(token);
        self.settle(now, host);
    }

    /// Reads the header again.
    pub fn refresh(&mut self, host: &mut impl Host<T>, token: T) {
        match &self.death {
            Some(death) => host.finished(token, Err(death.clone())),
            None => self.refresh_for(host, Waiter::Caller(token)),
        }
    }

    /// Closes the image: what is in flight ends, the lock is let go, the watch is given up.
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
        self.settle(now, host);
    }

    /// Closes the image without waiting for what is in flight, which nobody waits for either: a full cluster may never take it.
    pub fn leave(&mut self, now: Time, host: &mut impl Host<T>) {
        self.is_leaving = true;
        self.close(now, host, None);
    }

    /// A request of the machine has completed.
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
            self.die(Error::Blocklisted);
        }
        match purpose {
            Purpose::Piece { .. } | Purpose::Nobody => {}
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
        self.settle(now, host);
    }

    /// The time has come that [`Host::wake_at`] was told.
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
        self.settle(now, host);
    }

    /// When [`due`](Self::due) must be called.
    pub fn deadline(&self) -> Option<Time> {
        let lock = if let LockState::Waiting(at) = self.lock.state { Some(at) } else { None };
        let watch = if let WatchState::Waiting(at) = self.watch { Some(at) } else { None };
        lock.into_iter().chain(watch).min()
    }

    /// Does the image have an exclusive lock?
    pub(super) fn has_lock(&self) -> bool {
        self.facts.state.features.contains(Features::EXCLUSIVE_LOCK)
    }

    /// Goes on with whatever can go on.
    pub(super) fn settle(&mut self, now: Time, host: &mut impl Host<T>) {
        if self.death.is_some() {
            self.bury(host);
            if self.changing == 0 {
                self.lock.fencers.drain(..).for_each(|token| host.finished(token, Ok(Outcome::Done)));
            }
        }
        self.settle_pauses(host);
        self.settle_lock(host);
        self.settle_resize(host);
        self.is_open = self.may_write();
        // What ends at once in the loop must not begin another one.
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
            self.settle_lock(host);
            self.is_open = self.may_write();
        }
        self.settle_end(host);
        self.is_draining = self.is_closing()
            || self.is_resizing()
            || self.pauses.is_any()
            || self.lock.state == LockState::Draining;
    }

    /// May changes go out?
    fn may_write(&self) -> bool {
        let is_ready = match self.has_lock() {
            true => self.lock.state == LockState::Held,
            false => matches!(self.watch, WatchState::Watching(_)),
        };
        is_ready
            && self.death.is_none()
            && !self.is_resizing()
            && !self.pauses.is_any()
            && !self.refresh.is_in_flight
            && self.map.as_ref().is_none_or(|map| !map.is_failing)
            && self.check_writable().is_ok()
    }

    /// A change has ended, also one that never began.
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

    /// Ends a caller's request.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, host: &mut impl Host<T>, io: u32) {
        let Running { token, error, gather, .. } = self.ios.remove(io as usize);
        let error =
            error.map(|error| if error.is_blocklisted() { self.die(Error::Blocklisted) } else { error });
        match gather {
            Gather::Changes { epoch, .. } => {
                self.changing -= 1;
                let result = error.map_or(Ok(Outcome::Done), Err);
                self.end_change(host, epoch, token, result);
            }
            gather => host.finished(token, error.map_or_else(|| gather.outcome(), Err)),
        }
        if self.is_draining || self.death.is_some() {
            self.settle(now, host);
        }
    }

    /// The image is of no use any more.
    #[cold]
    pub(super) fn die(&mut self, error: Error) -> Error {
        tracing::error!(image = self.facts.id, %error, "an image is lost");
        self.death.get_or_insert(error).clone()
    }
}

/// The reply of a request to an object, if it succeeded.
pub(super) fn reply(outcome: Result<client::Outcome, ClientError>) -> Result<OpReply, ClientError> {
    match outcome? {
        client::Outcome::Reply(reply) => reply.ok(),
        _ => Err(ClientError::Mismatch("it is of another kind")),
    }
}

/// The error number of a failed request, or 0.
pub(super) fn errno_of<R>(result: &Result<R, ClientError>) -> i32 {
    result.as_ref().err().map_or(0, ClientError::errno)
}
