//! The exclusive lock: one client at a time changes an image. It is taken for the first change, and let go when another
//! client asks for it.
//!
//! OSDs do not enforce it. An owner that is gone without letting go is shut out of the cluster (blocklisted) before the lock
//! is taken away from it, so that nothing of it arrives later.
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

/// What names of locks begin with that clients take by themselves; the watch follows (`WATCHER_LOCK_COOKIE_PREFIX`).
const COOKIE_PREFIX: &str = "auto ";

/// The tag of locks that clients take by themselves (`WATCHER_LOCK_TAG`).
const TAG: &str = "internal";

/// Seconds that an owner has to answer.
const NOTIFY_TIMEOUT: u32 = 5;

/// Time until the lock is tried again if the owner neither lets go of it nor refuses, and after another client was given
/// it.
const RETRY: Duration = Duration::from_secs(2);

/// How often an owner that watches may leave it unanswered that the lock is asked for: about a minute. One that is gone
/// does not watch for half as long.
const MAX_UNANSWERED: u32 = 9;

/// How often a lock of this very client may be found without a watch before it is broken: for a little longer than a watch
/// outlives its connection.
const MAX_UNWATCHED: u32 = 16;

/// The watch of the client that owns an image's exclusive lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockOwner {
    handle: u64,
    addr: EntityAddr,
}

impl LockOwner {
    /// Returns the owner that a header's lock `rbd_lock` names; `None` if nobody owns it or somebody took it by hand.
    pub fn of(info: &LockInfo) -> Option<Self> {
        let locker = first_locker(info).filter(|_| info.tag == TAG)?;
        Some(Self { handle: parse_cookie(&locker.id.cookie)?, addr: locker.addr })
    }

    /// Returns whether the header's watch with this cookie, from this address, is the owner's: the owner is alive then.
    pub fn has_watch(&self, cookie: u64, addr: &EntityAddr) -> bool {
        (cookie, addr.sock, addr.nonce) == (self.handle, self.addr.sock, self.addr.nonce)
    }
}

impl<T> OpenImage<T> {
    /// This user of the image, as notifications call it.
    pub(super) fn client_id(&self, host: &impl Host<T>) -> ClientId {
        let handle = self.watch_id().map_or(0, onego_ceph::client::WatchId::cookie);
        ClientId { gid: host.global_id(), handle }
    }

    /// Takes the next step. Other threads see at once who owns the lock: before any caller is told.
    pub(super) fn set_lock(&mut self, state: LockState) {
        self.lock.is_announced &= state.is_owned();
        if state.is_owned() {
            self.lock.wait = None;
        }
        if !state.is_owned() {
            self.break_resize();
        }
        // While header and map are read again, nobody else is the owner.
        self.view.set_owner(state == LockState::Held || self.lock.is_announced && state.is_learning());
        self.lock.state = state;
    }

    /// The image's id.
    pub fn id(&self) -> &str {
        &self.facts.id
    }

    /// The client that has the lock which something here waits for.
    pub fn lock_wait(&self) -> Option<&LockWait> {
        self.lock.wait.as_ref()
    }

    /// Does anything here need the lock?
    fn wants_lock(&self) -> bool {
        !self.held.is_empty() || !self.lock.takers.is_empty() || self.is_resizing() || self.pauses.is_any()
    }

    /// Goes on with the lock.
    pub(super) fn settle_lock(&mut self, host: &mut impl Host<T>) {
        self.settle_cookie(host);
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
                // What waited for the lock goes out first, or two clients could hand it to each other for nothing.
                let is_asked =
                    self.lock.is_requested && !self.lock.is_pinned || !self.lock.leavers.is_empty();
                let must_go = is_over || is_asked && self.held.is_empty() && self.lock.holders == 0;
                if must_go && !self.operations.is_idle() {
                    self.break_operations_off(host);
                }
                // An image without the feature has no lock any more, whatever is under way.
                if must_go && !(self.has_lock() && self.operations.is_committed()) {
                    self.set_lock(LockState::Draining);
                    self.settle_lock(host);
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
        // A client that cleans up must not wait until a full cluster has room.
        host.request(request.with_flags(flag::FULL_TRY), ticket);
    }

    fn next_lock_ticket(&mut self) -> Ticket {
        self.lock.step += 1;
        Ticket(Purpose::Lock { step: self.lock.step })
    }

    fn take_lock(&mut self, host: &mut impl Host<T>) {
        let Some(watch) = self.watch_id() else {
            // It is taken as soon as the header is watched again.
            self.set_lock(LockState::Free);
            return;
        };
        self.set_lock(LockState::Taking);
        self.lock.handle = watch.cookie();
        let op = exclusive(cookie(self.lock.handle), TAG);
        let request = self.header_request(op).with_flags(flag::WRITE);
        self.lock_request(host, request);
    }

    /// A step has ended.
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

    /// Nobody here gets the lock.
    fn lock_failed(&mut self, host: &mut impl Host<T>, error: Error) {
        tracing::info!(image = self.facts.id, %error, "the lock of an image cannot be had");
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
            // EEXIST: an earlier attempt of this very client has it.
            0 | errno::EEXIST => {
                tracing::debug!(image = self.facts.id, "the lock of an image is taken");
                self.set_lock(LockState::Refreshing);
                self.lock.is_requested = false;
                // The last owner may have changed the header a moment ago.
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

    /// The header has told the holder of the lock, and the watchers.
    fn inspected(&mut self, now: Time, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        let parsed = result.and_then(|reply| match reply.ops.as_slice() {
            [info, watchers] => {
                let info = GetInfo::reply(&info.output)?;
                Ok((info, Watchers::from_bytes(&watchers.output.to_segment())?))
            }
            _ => Err(ClientError::Mismatch("it has not all outputs")),
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
            // Another handle of this client may be about to watch anew. It writes meanwhile, and nobody can shut it out.
            self.wait_for_lock(now, host);
        } else if is_ours {
            // It was not closed: nothing of it is on its way.
            self.lock.unwatched = 0;
            self.break_lock(host, &locker);
        } else {
            tracing::warn!(
                image = self.facts.id,
                owner,
                "the owner of an image's lock is gone: it is shut out"
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

    /// The owner was asked for the lock.
    fn asked(&mut self, now: Time, host: &mut impl Host<T>, outcome: Result<client::Outcome, ClientError>) {
        let (answers, is_late) = match outcome {
            Ok(client::Outcome::Notified(notified)) => (notified.answers, !notified.missed.is_empty()),
            // It is tried again, whatever it was: the owner may die, or let go.
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

    /// The epoch of the newest map is known, or this client has it: all its requests bear it from now on, and OSDs serve
    /// none of them before they have that map themselves.
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

    /// The lock is held, and the header is known anew.
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
        self.settle_lock(host);
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

    /// Somebody holds the lock of the map without holding that of the image: it is gone.
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

    /// The map cannot be relied on. The header says so before anything is written.
    fn lose_map(&mut self, host: &mut impl Host<T>, reason: &str) {
        tracing::warn!(image = self.facts.id, reason, "the object map cannot be used");
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
            Ticket(Purpose::Nobody),
        );
        self.give_lock(host);
    }

    /// Tells the callers that wait for the lock that they have it.
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

    /// The lock is let go. An error means that it was not held any more.
    fn unlocked(&mut self, now: Time, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        if let Err(error) = result {
            tracing::warn!(image = self.facts.id, %error, "the lock of an image was not held any more");
        }
        self.set_lock(LockState::Free);
        let released = Notification::ReleasedLock { client: self.client_id(host) };
        host.notify(
            self.facts.header.clone(),
            released.to_bytes().into(),
            NOTIFY_TIMEOUT,
            Ticket(Purpose::Nobody),
        );
        self.lock.leavers.drain(..).for_each(|token| host.finished(token, Ok(Outcome::Done)));
        // The client that asked for it comes first.
        if std::mem::take(&mut self.lock.is_requested) && self.has_lock() {
            self.wait_for_lock(now, host);
        }
    }

    /// Another client asks for the lock. Gives the answer, if this client is the owner.
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

    /// Another client has the lock now: it is asked at once, if the lock is wanted here.
    pub(super) fn lock_acquired_elsewhere(&mut self, client: ClientId, host: &mut impl Host<T>) {
        if client != self.client_id(host) && matches!(self.lock.state, LockState::Waiting(_)) {
            if self.wants_lock() {
                self.ask_owner(host);
            } else {
                self.set_lock(LockState::Free);
            }
        }
    }

    /// Another client has let go of the lock.
    pub(super) fn lock_released_elsewhere(&mut self, client: ClientId, host: &mut impl Host<T>) {
        let is_waiting = matches!(self.lock.state, LockState::Waiting(_) | LockState::Asking);
        if client != self.client_id(host) && is_waiting {
            self.lock.step += 1;
            self.set_lock(LockState::Free);
        }
    }

    /// The lock gets the name of a new watch, so that others see that its owner is alive.
    fn settle_cookie(&mut self, host: &mut impl Host<T>) {
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

    /// The lock has its new name, or is not held any more.
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
        self.settle_lock(host);
    }
}

/// Takes a lock that one client has at a time.
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

/// The name of a lock whose owner has this watch.
fn cookie(handle: u64) -> String {
    format!("{COOKIE_PREFIX}{handle}")
}

fn parse_cookie(cookie: &str) -> Option<u64> {
    cookie.strip_prefix(COOKIE_PREFIX)?.parse().ok()
}

/// An answer to a notification.
pub(super) fn encode(response: Option<Response>) -> List {
    response.map(|response| response.to_bytes().into()).unwrap_or_default()
}
