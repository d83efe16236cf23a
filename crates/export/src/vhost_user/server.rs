//! The server as one state machine: its listener, the front end, and the disk.

use super::codec::configuration_changed;
use super::disk::{Disk, SECTOR};
use super::error::MessageError;
use super::features::protocol;
use super::front::{Counters, Front, Lasting, Role};
use super::limits::{QUEUES_MAX, REQUEST_MAX};
use crate::operations::Operations;
use onego_block::{Completions, PartialBlock, Plug, Split};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_metrics::OperationsSnapshot;
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of a message to the front end's other connection that are received at a time, to be thrown away.
const ANSWERS: usize = 256;

/// A back end of vhost-user as a state machine: no thread, no socket, no clock. Drive it as [`Machine`] says.
///
/// One front end uses the disk at a time. Another is turned away as long as it is there.
pub struct DiskServer {
    shared: Lasting,
    front: Option<Front>,
    failure: Option<io::Error>,
    /// What the front end's other connection is to be sent.
    to_backend: List,
    /// More is available than one turn takes, since then.
    more: Option<Time>,
}

impl Default for DiskServer {
    /// With 32 MiB of idle memory.
    fn default() -> Self {
        Self::new(Pool::new(32 << 20))
    }
}

impl DiskServer {
    /// A server that listens nowhere yet. The pool gives memory for what guests write.
    pub fn new(pool: Pool) -> Self {
        let shared = Lasting {
            disk: Disk::empty(),
            pool,
            plug: Plug::default(),
            actions: VecDeque::new(),
            conns: ConnTable::default(),
            requests: Slab::new(),
            completions: Completions::default(),
            held: 0,
            era: 0,
            left: 0,
            counters: Counters::default(),
            operations: Operations::new(None),
        };
        Self { shared, front: None, failure: None, to_backend: List::new(), more: None }
    }

    /// Serves a disk, of a size in whole sectors of 512 bytes, on a Unix socket that the program has made and bound. The
    /// driver closes it.
    pub fn serve(&mut self, disk: Disk, socket: OwnedFd) -> Result<(), PartialBlock> {
        disk.geometry().in_blocks_of(SECTOR)?;
        let device = Rc::new(Split::new(disk.device, REQUEST_MAX));
        self.shared.disk = Disk { device, queues: disk.queues.clamp(1, QUEUES_MAX), ..disk };
        self.shared.actions.push_back(Action::Adopt { listener: ListenerId(0), socket });
        Ok(())
    }

    /// Why it cannot listen; told once.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Tells of requests that take as long by an event of `tracing` with the target `onego::slow`. Before anything is served.
    pub fn set_slow(&mut self, slow: Duration) {
        self.shared.operations = Operations::new(Some(slow));
    }

    /// Requests to the disk.
    pub fn operations(&self) -> OperationsSnapshot {
        self.shared.operations.snapshot()
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.shared.counters
    }

    /// Requests that are at the device, with those of front ends that are gone.
    pub fn in_flight(&self) -> usize {
        self.shared.requests.len()
    }

    /// Serves the queues once, and takes what has come of requests.
    fn settle(&mut self, now: Time) {
        let shared = &mut self.shared;
        if let Some(front) = &mut self.front {
            front.serve(now, shared);
        }
        while let Some(completion) = shared.completions.take() {
            let Some(request) = shared.requests.try_remove(completion.tag as usize) else { continue };
            shared.held -= request.held();
            shared.operations.end(now, &request.asked, completion.result.is_err());
            if request.era != shared.era {
                shared.left -= 1;
            } else if let Some(front) = &mut self.front {
                front.complete(completion, request, shared);
            }
        }
        self.more = None;
        if let Some(front) = &mut self.front {
            front.publish(shared);
            self.more = front.may_serve(shared).then_some(now);
            if front.end_stopping(shared) {
                shared.actions.push_back(Action::Resume { conn: front.conn });
            }
        }
        self.tell_size();
    }

    /// Tells the front end if the size of the device has changed since it asked (vhost-user.rst, 'CONFIG_CHANGE_MSG').
    fn tell_size(&mut self) {
        let Some(front) = &mut self.front else { return };
        let Some(conn) = front.backend.filter(|_| front.has(protocol::CONFIG)) else { return };
        let size = self.shared.disk.geometry().size;
        if size != front.size {
            tracing::info!(from = front.size, to = size, "the size of the disk has changed");
            front.size = size;
            self.to_backend.push(configuration_changed());
            self.shared.actions.push_back(Action::Transmit { conn });
        }
    }

    /// Ends the front end, which has broken the protocol.
    fn give_up(&mut self, error: &MessageError) {
        let Some(front) = self.front.take() else { return };
        tracing::warn!(%error, "a front end is given up");
        self.shared.counters.given_up += 1;
        self.shared.close(front.conn);
        front.end(&mut self.shared);
    }
}

impl onego_block::Export for DiskServer {
    fn has_completions(&self) -> bool {
        !self.shared.completions.is_empty()
    }
}

impl Machine for DiskServer {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(action) = self.shared.actions.pop_front() {
            return Some(action);
        }
        self.settle(now);
        self.shared.actions.pop_front()
    }

    fn listening(&mut self, _: Time, _: ListenerId, result: io::Result<SocketAddr>) {
        self.failure = result.err();
    }

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        if self.front.is_some() {
            tracing::warn!("another front end is turned away: the disk is in use");
            return None;
        }
        let conn = self.shared.conns.insert(Role::Front);
        self.front = Some(Front::new(conn, &self.shared.disk));
        self.shared.counters.accepted += 1;
        tracing::info!("a front end uses the disk");
        Some(conn)
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}

    fn disconnected(&mut self, _: Time, conn: ConnId, cause: Disconnect) {
        let Some(role) = self.shared.conns.remove(conn) else { return };
        match role {
            Role::Front => {
                tracing::info!(?cause, "the front end is gone");
                if let Some(front) = self.front.take() {
                    front.end(&mut self.shared);
                }
            }
            Role::Backend => {
                self.to_backend = List::new();
                if let Some(front) = &mut self.front {
                    front.backend = None;
                }
            }
            Role::Kick(index) => {
                tracing::warn!(?cause, queue = index, "kicks of a queue cannot be watched");
                if let Some(front) = &mut self.front {
                    front.queues[index].kick = None;
                }
            }
        }
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        match (self.shared.conns.get(conn), &self.front) {
            (Some(Role::Front), Some(front)) if front.stopping.is_none() => front.inbound.landing(),
            (Some(Role::Backend), _) => Landing::shared(ANSWERS),
            _ => Landing::default(),
        }
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}

    fn received(&mut self, _: Time, conn: ConnId, bytes: Segment) {
        if self.shared.conns.get(conn) != Some(&Role::Front) {
            return;
        }
        let Some(front) = &mut self.front else { return };
        let handled = front.inbound.received(&bytes).and_then(|whole| match whole {
            Some(whole) => front.handle(whole, &mut self.shared),
            None => Ok(()),
        });
        if let Err(error) = handled {
            self.give_up(&error);
        }
    }

    fn descriptors(&mut self, _: Time, conn: ConnId, descriptors: Vec<OwnedFd>) {
        if self.shared.conns.get(conn) == Some(&Role::Front)
            && let Some(front) = &mut self.front
        {
            front.inbound.descriptors(descriptors);
        }
    }

    fn transmit(&mut self, _: Time, conn: ConnId, out: &mut List, _: usize) {
        match (self.shared.conns.get(conn), &mut self.front) {
            (Some(Role::Front), Some(front)) => out.append(std::mem::take(&mut front.outbound)),
            (Some(Role::Backend), _) => out.append(std::mem::take(&mut self.to_backend)),
            _ => {}
        }
    }

    fn ready(&mut self, _: Time, conn: ConnId) {
        let Some(Role::Kick(index)) = self.shared.conns.get(conn) else { return };
        if let Some(front) = &mut self.front
            && let Some(running) = &mut front.queues[*index].running
        {
            running.waiting = !running.broken;
        }
    }

    fn deadline(&self) -> Option<Time> {
        let device = &self.shared.disk.device;
        let due = if device.keeps_time() { device.due_at() } else { None };
        self.more.into_iter().chain(due).min()
    }

    fn timeout(&mut self, now: Time) {
        self.more = None;
        self.shared.disk.device.due(now);
    }
}
