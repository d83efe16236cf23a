//! The exclusive lock: only one client at a time changes an image. It is acquired for the first change, and released when
//! another client requests it.
//!
//! OSDs do not enforce the lock. If an owner is gone without releasing it, it is blocklisted before the lock is broken, so
//! that none of its writes arrives later.
//!
//! Source: ceph `src/librbd/{ManagedLock,ExclusiveLock}.cc`, `src/librbd/managed_lock/`, `src/librbd/exclusive_lock/`.

use super::lock_state::{LockState, LockWait, Locker};
use super::machine::{OpenImage, WatchState, errno_of, reply};
use super::map::LOCK_NAME;
use super::refresh_state::Waiter;
use crate::error::Error;
use crate::host::{Host, Purpose, Ticket};
use crate::notify::{ClientId, Notification, Response};
use crate::request::Outcome;
use onego_buf::List;
use onego_ceph::client::{self, Error as ClientError, OpReply, Request, errno};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::lock::{self as cls, BreakLock, GetInfo, LockInfo, LockerId, SetCookie, Unlock, kind};
use onego_ceph::cls::rbd::{ObjectMap, ObjectMapLoad};
use onego_ceph::ops::{Op, flag};
use onego_ceph::outputs::Watchers;
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_wire::Time;
use std::time::Duration;

/// Prefix of the cookies of automatic locks, before the watch's cookie (`WATCHER_LOCK_COOKIE_PREFIX`).
const COOKIE_PREFIX: &str = "auto ";

/// Tag of automatic locks (`WATCHER_LOCK_TAG`).
const TAG: &str = "internal";

const NOTIFY_TIMEOUT: u32 = 5;

/// Delay before the lock is tried again: the owner neither released nor refused it, or this client has just released it for
/// another.
const RETRY: Duration = Duration::from_secs(2);

/// Number of consecutive requests for the lock that a watching owner may leave unanswered: about a minute. The watch of a
/// dead owner expires in half that time.
const MAX_UNANSWERED: u32 = 9;

/// Number of times that a lock of this very client is found without a watch before it is broken: a little longer than a
/// watch outlives its connection.
const MAX_UNWATCHED: u32 = 16;

/// Watch of the client that owns an image's exclusive lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockOwner {
    handle: u64,
    addr: EntityAddr,
}

impl LockOwner {
    /// Returns the owner of a header's lock `rbd_lock`; `None` if it is free or was taken manually.
    pub fn of(info: &LockInfo) -> Option<Self> {
        let locker = first_locker(info).filter(|_| info.tag == TAG)?;
        Some(Self { handle: parse_cookie(&locker.id.cookie)?, addr: locker.addr })
    }

    /// Returns whether a watch of the header, with this cookie and address, is the owner's, so that the owner is alive.
    pub fn has_watch(&self, cookie: u64, addr: &EntityAddr) -> bool {
        (cookie, addr.sock, addr.nonce) == (self.handle, self.addr.sock, self.addr.nonce)
    }
}

impl<T> OpenImage<T> {
    pub(super) fn client_id(&self, host: &impl Host<T>) -> ClientId {
        let handle = self.watch_id().map_or(0, onego_ceph::client::WatchId::cookie);
        ClientId { gid: host.global_id(), handle }
    }

    /// Sets the state. Publishes the ownership to other threads before any caller is notified.
    pub(super) fn set_lock(&mut self, state: LockState) {
        self.lock.is_announced &= state.is_owned();
        if state.is_owned() {
            self.lock.wait = None;
        }
        if !state.is_owned() {
            self.break_resize();
        }
        // This client remains the owner while it reads header and map again.
        self.view.set_owner(state == LockState::Held || self.lock.is_announced && state.is_learning());
        self.lock.state = state;
    }

    /// Returns the image's id.
    pub fn id(&self) -> &str {
        &self.facts.id
    }

    /// Returns the client that holds the lock, while this image waits for it.
    pub fn lock_wait(&self) -> Option<&LockWait> {
        self.lock.wait.as_ref()
    }

    fn wants_lock(&self) -> bool {
        !self.held.is_empty() || !self.lock.takers.is_empty() || self.is_resizing() || self.pauses.is_any()
    }

    pub(super) fn process_lock(&mut self, host: &mut impl Host<T>) {
        self.renew_cookie(host);
        let is_idle = self.changing == 0 && self.is_map_idle();
        match &self.lock.state {
            LockState::Free => {
                if !self.has_lock() {
                    self.give_lock(host);
                } else if self.wants_lock() && matches!(self.watch, WatchState::Watching(_)) {
                    self.take_lock(host);
                } else {
                    self.lock.wait = None;
                }
            }
            LockState::Held => {
                self.give_lock(host);
                let is_over = !self.has_lock() || self.is_closing() && !self.wants_lock();
                // Changes that waited for the lock go out first; otherwise two clients could pass it back and forth without progress.
                let is_asked =
                    self.lock.is_requested && !self.lock.is_pinned || !self.lock.leavers.is_empty();
                let must_go = is_over || is_asked && self.held.is_empty() && self.lock.holders == 0;
                if must_go && !self.operations.is_idle() {
                    self.break_operations_off(host);
                }
                // Without the feature the image has no lock any more, whatever is in flight.
                if must_go && !(self.has_lock() && self.operations.is_committed()) {
                    self.set_lock(LockState::Draining);
                    self.process_lock(host);
                } else if self.facts.state.has_map() && self.map.is_none() {
                    self.lock_map(host);
                } else if !self.facts.state.has_map() && self.map.as_ref().is_some_and(|map| !map.is_failing)
                {
                    self.drop_map(host);
                }
            }
            LockState::Draining if is_idle || !self.has_lock() => self.unlock_map(host),
            _ => {}
        }
    }

    fn lock_request(&mut self, host: &mut impl Host<T>, request: Request) {
        let ticket = self.next_lock_ticket();
        // Releasing the lock must not wait until a full cluster has room.
        host.request(request.with_flags(flag::FULL_TRY), ticket);
    }

    fn next_lock_ticket(&mut self) -> Ticket {
        self.lock.step += 1;
        Ticket(Purpose::Lock { step: self.lock.step })
    }

    fn take_lock(&mut self, host: &mut impl Host<T>) {
        let Some(watch) = self.watch_id() else {
            // It is acquired as soon as the header is watched again.
            self.set_lock(LockState::Free);
            return;
        };
        self.set_lock(LockState::Taking);
        self.lock.handle = watch.cookie();
        let op = exclusive(cookie(self.lock.handle), TAG);
        let request = self.header_request(op).with_flags(flag::WRITE);
        self.lock_request(host, request);
    }

    pub(super) fn lock_step(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        outcome: Result<client::Outcome, ClientError>,
    ) {
        match self.lock.state.clone() {
            LockState::Taking => self.taken_or_not(host, reply(outcome)),
            LockState::Inspecting => self.inspected(now, host, reply(outcome)),
            LockState::Asking => self.asked(now, host, outcome),
            LockState::Blocklisting(locker) => self.blocklisted(host, locker, outcome),
            LockState::Fencing(locker) => self.fenced(host, &locker, outcome),
            LockState::Breaking => match reply(outcome) {
                Err(error) if error.errno() != errno::ENOENT => self.lock_failed(host, error.into()),
                _ => self.take_lock(host),
            },
            LockState::LockingMap => self.map_locked(host, reply(outcome)),
            LockState::InspectingMap => self.map_inspected(host, reply(outcome)),
            LockState::BreakingMap => self.lock_map(host),
            LockState::LoadingMap => self.map_loaded(host, reply(outcome)),
            LockState::UnlockingMap => self.unlock_header(host),
            LockState::Unlocking => self.unlocked(now, host, reply(outcome)),
            LockState::Free
            | LockState::Waiting(_)
            | LockState::Refreshing
            | LockState::Held
            | LockState::Draining => {}
        }
    }

    fn lock_failed(&mut self, host: &mut impl Host<T>, error: Error) {
        tracing::info!(image = self.facts.id, %error, "cannot acquire the lock of an image");
        self.set_lock(LockState::Free);
        self.lock.wait = None;
        let takers = std::mem::take(&mut self.lock.takers);
        self.lock.is_pinned &= takers.is_empty();
        takers.into_iter().for_each(|token| host.finished(token, Err(error.clone())));
        self.fail_resizes(host, &error);
        while let Some(held) = self.held.pop_front() {
            self.end_change(host, held.epoch, held.token, Err(error.clone()));
        }
    }

    fn taken_or_not(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        match errno_of(&result) {
            // EEXIST: an earlier attempt of this very client succeeded.
            0 | errno::EEXIST => {
                tracing::debug!(image = self.facts.id, "acquired the lock of an image");
                self.set_lock(LockState::Refreshing);
                self.lock.is_requested = false;
                // The last owner may have just changed the header.
                self.refresh_for(host, Waiter::Lock);
            }
            errno::EBUSY => {
                self.set_lock(LockState::Inspecting);
                let info = GetInfo { name: LOCK_NAME.to_owned() }.call();
                let request = self.header_request(info).and(Op::ListWatchers);
                self.lock_request(host, request);
            }
            _ => {
                if let Err(error) = result {
                    self.lock_failed(host, error.into());
                }
            }
        }
    }

    fn inspected(&mut self, now: Time, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        let parsed = result.and_then(|reply| match reply.ops.as_slice() {
            [info, watchers] => {
                let info = GetInfo::reply(&info.output)?;
                Ok((info, Watchers::from_bytes(&watchers.output.to_segment())?))
            }
            _ => Err(ClientError::Mismatch("it lacks outputs")),
        });
        let (info, watchers) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return self.lock_failed(host, error.into()),
        };
        let Some(locker) = first_locker(&info) else { return self.take_lock(host) };
        let owner = locker.id.locker.to_string();
        let Some(lock_owner) = LockOwner::of(&info) else {
            return self.lock_failed(host, Error::LockedByHand { owner });
        };
        let since = self.lock.wait.as_ref().map_or(now, |wait| wait.since);
        self.lock.wait = Some(LockWait { owner: locker.id.locker, addr: locker.addr, since });
        let is_alive = watchers.0.iter().any(|watcher| lock_owner.has_watch(watcher.cookie, &watcher.addr));
        let is_ours = locker.id.locker == EntityName::client(host.global_id());
        self.lock.unwatched = if is_ours && !is_alive { self.lock.unwatched + 1 } else { 0 };
        if is_alive {
            self.ask_owner(host);
        } else if is_ours && self.lock.unwatched < MAX_UNWATCHED {
            // Another handle of this client may be about to renew its watch. It writes meanwhile, and cannot be fenced.
            self.wait_for_lock(now, host);
        } else if is_ours {
            // It was not closed, but has nothing in flight.
            self.lock.unwatched = 0;
            self.break_lock(host, &locker);
        } else {
            tracing::warn!(
                image = self.facts.id,
                owner,
                "the owner of an image's lock is gone: blocklisting it"
            );
            self.shut_out(now, host, locker);
        }
    }

    fn ask_owner(&mut self, host: &mut impl Host<T>) {
        self.set_lock(LockState::Asking);
        let ask = Notification::RequestLock { client: self.client_id(host), force: false };
        let ticket = self.next_lock_ticket();
        host.notify(self.facts.header.clone(), ask.to_bytes().into(), NOTIFY_TIMEOUT, ticket);
    }

    fn asked(&mut self, now: Time, host: &mut impl Host<T>, outcome: Result<client::Outcome, ClientError>) {
        let (answers, is_late) = match outcome {
            Ok(client::Outcome::Notified(notified)) => (notified.answers, !notified.missed.is_empty()),
            // Retry after any error: the owner may die or release the lock.
            Ok(_) | Err(_) => (Vec::new(), false),
        };
        let answer = answers.iter().find_map(|(_, _, answer)| Response::from_bytes(answer).ok());
        let owner =
            self.lock.wait.as_ref().map_or_else(|| "another client".into(), |wait| wait.owner.to_string());
        if answer == Some(Response { result: errno::EROFS }) {
            return self.lock_failed(host, Error::LockRefused { owner });
        }
        self.lock.unanswered = if answer.is_none() && is_late { self.lock.unanswered + 1 } else { 0 };
        if self.lock.unanswered >= MAX_UNANSWERED {
            self.lock.unanswered = 0;
            return self.lock_failed(host, Error::LockUnanswered { owner });
        }
        self.wait_for_lock(now, host);
    }

    fn wait_for_lock(&mut self, now: Time, host: &mut impl Host<T>) {
        self.set_lock(LockState::Waiting(now + RETRY));
        host.wake_at(now + RETRY);
    }

    fn shut_out(&mut self, now: Time, host: &mut impl Host<T>, locker: Locker) {
        let Some(sock) = locker.addr.sock else { return self.wait_for_lock(now, host) };
        let nonce = locker.addr.nonce;
        self.set_lock(LockState::Blocklisting(locker));
        let ticket = self.next_lock_ticket();
        let add = r#"{"prefix": "osd blocklist", "blocklistop": "add""#;
        host.command(&format!(r#"{add}, "addr": "{sock}/{nonce}"}}"#), ticket);
    }

    fn blocklisted(
        &mut self,
        host: &mut impl Host<T>,
        locker: Locker,
        outcome: Result<client::Outcome, ClientError>,
    ) {
        match outcome {
            Ok(client::Outcome::Command(answer)) if answer.result >= 0 => {
                self.set_lock(LockState::Fencing(locker));
                let ticket = self.next_lock_ticket();
                host.newest_map(ticket);
            }
            Ok(client::Outcome::Command(answer)) => {
                self.lock_failed(host, ClientError::Refused { errno: answer.result }.into());
            }
            Ok(_) => self.lock_failed(host, ClientError::Mismatch("it is of another kind").into()),
            Err(error) => self.lock_failed(host, error.into()),
        }
    }

    /// Handles the epoch of the newest map, or the arrival of that map. From then on all requests of this client bear the epoch,
    /// and OSDs do not serve them before they have that map.
    fn fenced(
        &mut self,
        host: &mut impl Host<T>,
        locker: &Locker,
        outcome: Result<client::Outcome, ClientError>,
    ) {
        match outcome {
            Ok(client::Outcome::Version(epoch)) => {
                let epoch = u32::try_from(epoch).unwrap_or(u32::MAX);
                if host.epoch() >= epoch {
                    self.break_lock(host, locker);
                } else {
                    let ticket = self.next_lock_ticket();
                    host.wait_for_map(epoch, ticket);
                }
            }
            Ok(_) => self.lock_failed(host, ClientError::Mismatch("it is of another kind").into()),
            Err(error) => self.lock_failed(host, error.into()),
        }
    }

    fn break_lock(&mut self, host: &mut impl Host<T>, locker: &Locker) {
        self.set_lock(LockState::Breaking);
        let request = self.header_request(breaking(&locker.id)).with_flags(flag::WRITE);
        self.lock_request(host, request);
    }

    pub(super) fn lock_refreshed(&mut self, host: &mut impl Host<T>, result: &Result<(), Error>) {
        if self.lock.state != LockState::Refreshing {
            return;
        }
        match result {
            Err(error) => {
                self.lock_failed(host, error.clone());
                self.unlock_header(host);
            }
            Ok(()) if self.facts.state.has_map() => self.lock_map(host),
            Ok(()) => self.begin_holding(host),
        }
        self.process_lock(host);
    }

    fn lock_map(&mut self, host: &mut impl Host<T>) {
        self.set_lock(LockState::LockingMap);
        let request = self.map_request(exclusive(String::new(), "")).with_flags(flag::WRITE);
        self.lock_request(host, request);
    }

    fn map_locked(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        match errno_of(&result) {
            errno::EBUSY => {
                self.set_lock(LockState::InspectingMap);
                let info = GetInfo { name: LOCK_NAME.to_owned() }.call();
                let request = self.map_request(info);
                self.lock_request(host, request);
            }
            0 | errno::EEXIST => {
                self.set_lock(LockState::LoadingMap);
                let request = self.map_request(ObjectMapLoad {}.call());
                self.lock_request(host, request);
            }
            _ => self.lose_map(host, "its lock cannot be had"),
        }
    }

    /// Handles the holder of the map's lock. It does not hold the image's lock, so it is gone.
    fn map_inspected(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        let info = result.ok().and_then(|reply| GetInfo::reply(&reply.ops.first()?.output).ok());
        match info.as_ref().and_then(first_locker) {
            Some(locker) => {
                self.set_lock(LockState::BreakingMap);
                let request = self.map_request(breaking(&locker.id)).with_flags(flag::WRITE);
                self.lock_request(host, request);
            }
            None => self.lock_map(host),
        }
    }

    fn map_loaded(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        let map = result.ok().and_then(|reply| ObjectMapLoad::reply(&reply.ops.first()?.output).ok());
        let objects = self.facts.data.layout.objects(self.facts.state.size);
        match map {
            Some(map) if map.len() >= objects => {
                self.open_map(map);
                self.begin_holding(host);
            }
            _ => self.lose_map(host, "it is damaged or missing"),
        }
    }

    /// Gives up the map, marking it as invalid in the header before anything is written.
    fn lose_map(&mut self, host: &mut impl Host<T>, reason: &str) {
        tracing::warn!(image = self.facts.id, reason, "cannot use the object map");
        self.open_map(ObjectMap::new(0));
        if let Some(map) = &mut self.map {
            map.is_failing = true;
        }
        self.invalidate_map(host);
        self.begin_holding(host);
    }

    fn begin_holding(&mut self, host: &mut impl Host<T>) {
        self.set_lock(LockState::Held);
        if std::mem::replace(&mut self.lock.is_announced, true) {
            return self.give_lock(host);
        }
        let acquired = Notification::AcquiredLock { client: self.client_id(host) };
        host.notify(
            self.facts.header.clone(),
            acquired.to_bytes().into(),
            NOTIFY_TIMEOUT,
            Ticket(Purpose::Ignored),
        );
        self.give_lock(host);
    }

    fn give_lock(&mut self, host: &mut impl Host<T>) {
        self.lock.takers.drain(..).for_each(|token| host.finished(token, Ok(Outcome::Done)));
    }

    fn unlock_map(&mut self, host: &mut impl Host<T>) {
        if self.map.take().is_none() {
            return self.unlock_header(host);
        }
        self.set_lock(LockState::UnlockingMap);
        let op = Unlock { name: LOCK_NAME.to_owned(), cookie: String::new() }.call();
        let request = self.map_request(op).with_flags(flag::WRITE);
        self.lock_request(host, request);
    }

    fn unlock_header(&mut self, host: &mut impl Host<T>) {
        self.set_lock(LockState::Unlocking);
        let op = Unlock { name: LOCK_NAME.to_owned(), cookie: cookie(self.lock.handle) }.call();
        let request = self.header_request(op).with_flags(flag::WRITE);
        self.lock_request(host, request);
    }

    /// Handles the completion of the unlock. An error means that the lock was already lost.
    fn unlocked(&mut self, now: Time, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        if let Err(error) = result {
            tracing::warn!(image = self.facts.id, %error, "the lock of an image was already lost");
        }
        self.set_lock(LockState::Free);
        let released = Notification::ReleasedLock { client: self.client_id(host) };
        host.notify(
            self.facts.header.clone(),
            released.to_bytes().into(),
            NOTIFY_TIMEOUT,
            Ticket(Purpose::Ignored),
        );
        self.lock.leavers.drain(..).for_each(|token| host.finished(token, Ok(Outcome::Done)));
        // The client that requested it comes first.
        if std::mem::take(&mut self.lock.is_requested) && self.has_lock() {
            self.wait_for_lock(now, host);
        }
    }

    /// Handles another client's request for the lock. Returns the answer if this client is the owner.
    pub(super) fn lock_requested(&mut self, client: ClientId, host: &impl Host<T>) -> Option<Response> {
        let is_owner = self.lock.state.is_owned() || self.lock.state == LockState::Unlocking;
        if client == self.client_id(host) || !is_owner {
            return None;
        }
        if self.lock.is_pinned {
            return Some(Response { result: errno::EROFS });
        }
        self.lock.is_requested = true;
        Some(Response { result: 0 })
    }

    /// Handles another client's acquisition of the lock: requests it at once if this image wants it.
    pub(super) fn lock_acquired_elsewhere(&mut self, client: ClientId, host: &mut impl Host<T>) {
        if client != self.client_id(host) && matches!(self.lock.state, LockState::Waiting(_)) {
            if self.wants_lock() {
                self.ask_owner(host);
            } else {
                self.set_lock(LockState::Free);
            }
        }
    }

    pub(super) fn lock_released_elsewhere(&mut self, client: ClientId, host: &mut impl Host<T>) {
        let is_waiting = matches!(self.lock.state, LockState::Waiting(_) | LockState::Asking);
        if client != self.client_id(host) && is_waiting {
            self.lock.step += 1;
            self.set_lock(LockState::Free);
        }
    }

    /// Updates the lock's cookie to a new watch, so that others see that the owner is alive.
    fn renew_cookie(&mut self, host: &mut impl Host<T>) {
        let Some(watch) = self.watch_id() else { return };
        if !self.lock.state.is_owned() || self.lock.is_renaming || self.lock.handle == watch.cookie() {
            return;
        }
        self.lock.is_renaming = true;
        let op = SetCookie {
            name: LOCK_NAME.to_owned(),
            kind: kind::EXCLUSIVE,
            cookie: cookie(self.lock.handle),
            tag: TAG.to_owned(),
            new_cookie: cookie(watch.cookie()),
        };
        self.lock.handle = watch.cookie();
        let request = self.header_request(op.call()).with_flags(flag::WRITE | flag::FULL_TRY);
        host.request(request, Ticket(Purpose::Cookie));
    }

    /// Handles the update of the cookie. An error means that the lock is lost.
    pub(super) fn renamed(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        self.lock.is_renaming = false;
        if let Err(error) = result
            && self.lock.state.is_owned()
        {
            tracing::warn!(image = self.facts.id, %error, "the lock of an image is lost");
            self.lock.step += 1;
            self.set_lock(LockState::Free);
            self.drop_map(host);
        }
        self.process_lock(host);
    }
}

fn exclusive(cookie: String, tag: &str) -> Op {
    cls::Lock {
        name: LOCK_NAME.to_owned(),
        kind: kind::EXCLUSIVE,
        cookie,
        tag: tag.to_owned(),
        description: String::new(),
        duration: Utime::default(),
        flags: 0,
    }
    .call()
}

fn breaking(id: &LockerId) -> Op {
    BreakLock { name: LOCK_NAME.to_owned(), locker: id.locker, cookie: id.cookie.clone() }.call()
}

fn first_locker(info: &LockInfo) -> Option<Locker> {
    let (id, holder) = info.lockers.first_key_value()?;
    Some(Locker { id: id.clone(), addr: holder.addr })
}

fn cookie(handle: u64) -> String {
    format!("{COOKIE_PREFIX}{handle}")
}

fn parse_cookie(cookie: &str) -> Option<u64> {
    cookie.strip_prefix(COOKIE_PREFIX)?.parse().ok()
}

pub(super) fn encode(response: Option<Response>) -> List {
    response.map(|response| response.to_bytes().into()).unwrap_or_default()
}
