//! A front end, its queues, and what both share with the server.

use super::codec::RingAddresses;
use super::disk::Disk;
use super::features::{protocol, virtio};
use super::inbound::Inbound;
use super::queue::{QueueRecord, Record, Span, SplitRing};
use crate::operations::{ClientRequest, Operations};
use onego_block::{Completions, Plug};
use onego_buf::{List, Pool};
use onego_guest_memory::GuestMemory;
use onego_wire::{Action, ConnId, ConnTable};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What a server has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Front ends that came.
    pub accepted: u64,
    /// Front ends that broke the protocol.
    pub given_up: u64,
    /// Queues that were served no longer because what the guest put there made no sense.
    pub broken: u64,
    /// Requests that came, with those that were refused.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that a server before this one, or a connection before this one, left in flight.
    pub resubmitted: u64,
    /// Bytes that were read for guests.
    pub read: u64,
    /// Bytes that guests have written.
    pub written: u64,
}

/// What the driver calls something by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The front end.
    Front,
    /// The eventfd by which the guest says that a queue has more.
    Kick(usize),
    /// The connection for messages to the front end.
    Backend,
}

/// A request that is at the device.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The front end that it is of.
    pub(super) era: u64,
    pub(super) queue: usize,
    pub(super) head: u16,
    pub(super) status: u64,
    /// Where the bytes of a read go.
    pub(super) into: SmallVec<[Span; 4]>,
    /// What is counted of it.
    pub(super) asked: ClientRequest,
    /// Bytes that it reads or writes.
    pub(super) read: u64,
    pub(super) written: u64,
}

impl InFlight {
    pub(super) fn held(&self) -> usize {
        (self.read + self.written) as usize
    }
}

/// What stays when a front end goes.
pub(super) struct Lasting {
    pub(super) disk: Disk,
    pub(super) pool: Pool,
    pub(super) plug: Plug,
    pub(super) actions: VecDeque<Action>,
    pub(super) conns: ConnTable<Role>,
    pub(super) requests: Slab<InFlight>,
    pub(super) completions: Completions,
    /// Bytes of the requests at the device.
    pub(super) held: usize,
    /// Front ends are told apart by this, and so are resets of the device.
    pub(super) era: u64,
    /// Requests of eras before this one. Until they are done, nothing new begins: what the guest writes next must not be
    /// overtaken by what it wrote before.
    pub(super) left: usize,
    pub(super) counters: Counters,
    pub(super) operations: Operations,
}

impl Lasting {
    /// What is in flight belongs to nobody any more.
    pub(super) fn begin_era(&mut self) {
        self.era += 1;
        self.left = self.requests.len();
    }

    /// Closes what the driver has for the machine.
    pub(super) fn close(&mut self, conn: ConnId) {
        if self.conns.remove(conn).is_some() {
            self.actions.push_back(Action::Close { conn });
        }
    }
}

/// A front end.
pub(super) struct Front {
    pub(super) conn: ConnId,
    pub(super) inbound: Inbound,
    pub(super) outbound: List,
    /// What it wants, of what was offered.
    pub(super) features: u64,
    pub(super) protocol: u64,
    pub(super) memory: GuestMemory,
    pub(super) record: Option<Record>,
    pub(super) queues: Vec<Queue>,
    /// The connection for messages to it.
    pub(super) backend: Option<ConnId>,
    /// What is owed to the message that asks for a queue to be stopped: nothing is read until the queue's requests are done.
    pub(super) stopping: Option<Stopping>,
    /// May writes be cached until they are flushed?
    pub(super) write_cache: bool,
    /// The size that the front end knows, in bytes.
    pub(super) size: u64,
}

/// A message that waits for the end of a queue's requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopping {
    pub(super) header: super::codec::Header,
    pub(super) queue: usize,
}

/// A queue, as far as the front end has described it.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) size: u16,
    pub(super) addresses: Option<RingAddresses>,
    /// Chains that were taken before.
    pub(super) base: u16,
    pub(super) enabled: bool,
    pub(super) kick: Option<ConnId>,
    pub(super) call: Option<Arc<OwnedFd>>,
    pub(super) error: Option<Arc<OwnedFd>>,
    /// It was started, and is not stopped.
    pub(super) running: Option<Running>,
}

/// A queue that was started.
pub(super) struct Running {
    pub(super) ring: SplitRing,
    pub(super) record: Option<QueueRecord>,
    /// Requests in flight when a server before this one, or a connection before this one, ended.
    pub(super) left: VecDeque<u16>,
    pub(super) in_flight: usize,
    /// More may be available.
    pub(super) waiting: bool,
    /// Something was put back that the driver does not see yet.
    pub(super) unpublished: bool,
    /// Nothing is taken any more: what is there makes no sense.
    pub(super) broken: bool,
}

impl Front {
    pub(super) fn new(conn: ConnId, disk: &Disk) -> Self {
        let geometry = disk.geometry();
        Self {
            conn,
            inbound: Inbound::default(),
            outbound: List::new(),
            features: 0,
            protocol: 0,
            memory: GuestMemory::default(),
            record: None,
            queues: (0..disk.queues).map(|_| Queue::default()).collect(),
            backend: None,
            stopping: None,
            write_cache: geometry.volatile_cache,
            size: geometry.size,
        }
    }

    /// Must what is written be durable when it completes (virtio 5.2.6.2)?
    pub(super) fn writes_through(&self) -> bool {
        let may_cache = self.write_cache || self.features & virtio::CONFIG_WCE == 0;
        self.features & virtio::FLUSH == 0 || !may_cache
    }

    pub(super) fn has(&self, feature: u64) -> bool {
        debug_assert!(protocol::ALL & feature == feature);
        self.protocol & feature != 0
    }

    /// Stops everything at once: what is at the device goes on, and nobody waits for it.
    pub(super) fn abandon(&mut self, shared: &mut Lasting) {
        for queue in &mut self.queues {
            if let Some(kick) = queue.kick.take() {
                shared.close(kick);
            }
            queue.running = None;
            queue.enabled = false;
        }
        shared.begin_era();
    }

    /// Ends what the driver has of it, but for its connection.
    pub(super) fn end(mut self, shared: &mut Lasting) {
        self.abandon(shared);
        if let Some(backend) = self.backend {
            shared.close(backend);
        }
    }
}
