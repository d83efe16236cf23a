//! The object map. It records an object as existing before the object is created.
//!
//! Source: ceph `src/librbd/object_map/`, `src/librbd/ObjectMap.cc`.

use super::machine::OpenImage;
use super::map_state::{MapInUse, ObjectUpdate, Parked};
use crate::host::{Host, Purpose, Ticket};
use onego_ceph::client::{Error as ClientError, OpReply, Request};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::lock::{AssertLocked, kind};
use onego_ceph::cls::rbd::{ObjectMap, ObjectMapUpdate, SetFlags, image_flag, state};
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::{Op, flag};
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use std::collections::VecDeque;

/// Name of the lock of the object map and of the header (`RBD_LOCK_NAME`).
pub const LOCK_NAME: &str = "rbd_lock";

impl<T> OpenImage<T> {
    pub(super) fn map_request(&self, op: Op) -> Request {
        let name = format!("rbd_object_map.{}", self.facts.id);
        let header = &self.facts.header;
        let request = Request::one(header.pool, ObjectName::from(name.as_str()), op);
        request.in_namespace(&header.namespace).with_flags(self.facts.data.flags)
    }

    /// Builds a request that changes the object map, guarded by its lock.
    pub(super) fn map_change(&self, op: Op) -> Request {
        let assertion = AssertLocked {
            name: LOCK_NAME.to_owned(),
            kind: kind::EXCLUSIVE,
            cookie: String::new(),
            tag: String::new(),
        };
        self.map_request(assertion.call()).and(op).with_flags(flag::WRITE)
    }

    pub(super) fn open_map(&mut self, map: ObjectMap) {
        self.map_era += 1;
        self.map = Some(MapInUse::new(map, self.map_era));
    }

    /// Sends a request as soon as its object has the state `need` in the map.
    #[cold]
    pub(super) fn park(
        &mut self,
        host: &mut impl Host<T>,
        object: u64,
        need: u8,
        request: Request,
        ticket: Ticket,
    ) {
        let Some(map) = &mut self.map else { return host.request(request, ticket) };
        // Objects past the map's end have no state.
        if map.state(object) == need || object >= map.len() {
            return host.request(request, ticket);
        }
        self.queue(host, object, Parked::Send { need, request: Box::new(request), ticket });
    }

    /// Records the removal of an object in the map, unless the object is written meanwhile.
    pub(super) fn forget_object(&mut self, host: &mut impl Host<T>, object: u64) {
        if self.map.as_ref().is_some_and(|map| object < map.len()) {
            self.queue(host, object, Parked::Forget);
        }
    }

    fn queue(&mut self, host: &mut impl Host<T>, object: u64, parked: Parked) {
        let Some(map) = &mut self.map else { return };
        match map.updates.get_mut(&object) {
            Some(update) => update.queue.push_back(parked),
            None => {
                let queue = VecDeque::from([parked]);
                map.updates.insert(object, ObjectUpdate { target: state::NONEXISTENT, queue });
                self.advance_object(host, object);
            }
        }
    }

    /// Sends queued requests up to the next change of the object's state.
    fn advance_object(&mut self, host: &mut impl Host<T>, object: u64) {
        let Some(map) = &mut self.map else { return };
        let now = map.state(object);
        let Some(update) = map.updates.get_mut(&object) else { return };
        let (target, current) = loop {
            match update.queue.pop_front() {
                Some(Parked::Send { need, request, ticket }) if need == now => host.request(*request, ticket),
                Some(Parked::Send { need, request, ticket }) => {
                    update.queue.push_front(Parked::Send { need, request, ticket });
                    break (need, None);
                }
                Some(Parked::Forget) if now == state::PENDING => {
                    break (state::NONEXISTENT, Some(state::PENDING));
                }
                Some(Parked::Forget) => {}
                None => {
                    map.updates.remove(&object);
                    return;
                }
            }
        };
        update.target = target;
        let era = map.era;
        let change = ObjectMapUpdate { start: object, end: object + 1, state: target, current }.call();
        host.request(self.map_change(change), Ticket(Purpose::MapUpdate { object, era }));
    }

    pub(super) fn map_updated(
        &mut self,
        host: &mut impl Host<T>,
        object: u64,
        era: u32,
        result: Result<OpReply, ClientError>,
    ) {
        let Some(map) = self.map.as_mut().filter(|map| map.era == era && !map.is_failing) else { return };
        match result {
            Ok(_) => {
                if let Some(update) = map.updates.get(&object) {
                    let target = update.target;
                    map.set(object, target);
                }
                self.advance_object(host, object);
            }
            Err(error) => {
                map.is_failing = true;
                tracing::warn!(image = self.facts.id, %error, "cannot update the object map: giving it up");
                self.invalidate_map(host);
            }
        }
    }

    pub(super) fn invalidate_map(&mut self, host: &mut impl Host<T>) {
        let fast_diff = self.facts.state.features.contains(Features::FAST_DIFF);
        let flags =
            image_flag::OBJECT_MAP_INVALID | if fast_diff { image_flag::FAST_DIFF_INVALID } else { 0 };
        self.facts.state.flags |= flags;
        let op = SetFlags { flags, mask: flags, snap: NOSNAP }.call();
        host.request(self.header_request(op).with_flags(flag::WRITE), Ticket(Purpose::MapInvalid));
    }

    pub(super) fn map_is_invalid(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        if let Err(error) = result {
            // Nothing more can be done, and the caller's data matters more.
            tracing::error!(image = self.facts.id, %error, "cannot mark the object map as invalid");
        }
        self.drop_map(host);
    }

    /// Continues without a map and sends the requests that waited for it.
    pub(super) fn drop_map(&mut self, host: &mut impl Host<T>) {
        let Some(map) = self.map.take() else { return };
        for parked in map.updates.into_values().flat_map(|update| update.queue) {
            if let Parked::Send { request, ticket, .. } = parked {
                host.request(*request, ticket);
            }
        }
    }

    pub(super) fn is_map_idle(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.updates.is_empty() && !map.is_failing)
    }
}
