//! Requests in flight, found by their transaction ids without a search.

use crate::client::error::Error;
use crate::client::request::{Request, WatchId};
use crate::messages::{ObjectName, OsdOp};
use crate::types::{Epoch, NOSNAP, ObjectLocator, ReqId, SnapContext, SpgId, Utime};
use onego_buf::SegmentMut;
use onego_msgr::features;
use onego_wire::{ConnId, Time};
use smallvec::SmallVec;
use std::time::Duration;

/// Low bits of a transaction id: the request's place in the table. The high bits count up, so that ids are never
/// used twice and the order of ids is the order of submission.
const SLOT_BITS: u32 = 16;

/// Nobody serves the request: there is no map, no pool, or no OSD that is up.
pub(super) const NOBODY: i32 = -1;

/// What waits for the end of a request.
#[derive(Debug)]
pub(super) enum Owner<T> {
    Caller(T),
    /// A watch is registered or renewed.
    Register(WatchId),
    /// A watch is kept alive.
    Ping(WatchId),
    /// A watch is given up.
    Unwatch(T),
    /// A notification is sent; its end is told by another message.
    Notify(WatchId),
    /// A notification is acknowledged: nobody.
    Nobody,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct PendingOp<T> {
    pub(super) owner: Owner<T>,
    /// What is sent. Its placement group, epoch, flags and attempt are filled in when it is.
    pub(super) message: OsdOp,
    /// The pool that was asked for; a tier or a redirection may make it another in `message`.
    pub(super) pool: i64,
    /// Is the hash in `message` known?
    pub(super) hashed: bool,
    /// The OSD that serves the request, or [`NOBODY`].
    pub(super) osd: i32,
    /// Is the OSD a replica?
    pub(super) replica: bool,
    /// Number of groups in the pool when the group was determined.
    pub(super) pg_num: u32,
    /// The map forbids it for now.
    pub(super) paused: bool,
    /// The connection on which the last attempt was sent, while a reply to it is expected.
    pub(super) sent_on: Option<ConnId>,
    /// When that was.
    pub(super) sent_at: Time,
    /// When it was submitted.
    pub(super) since: Time,
    /// Epoch of the map then.
    pub(super) sent_epoch: Epoch,
    /// Times it was sent.
    pub(super) attempts: i32,
    /// Connections in a row that ended when it was the only request on them.
    pub(super) rejections: u32,
    /// The id that it was submitted with: it has another once an OSD wants it to be made anew.
    submitted_as: u64,
    /// How often an OSD wanted that, one time after the other.
    pub(super) renewals: u32,
    /// How often an OSD sent it elsewhere.
    pub(super) redirects: u32,
    /// It is not sent before.
    pub(super) not_before: Option<Time>,
    /// When it fails.
    pub(super) deadline: Option<Time>,
    /// How long after its submission that is.
    pub(super) timeout: Duration,
    /// What it counts for against the bound on bytes.
    pub(super) cost: u64,
    /// The map has no such pool.
    pub(super) no_pool: bool,
    /// If the pool is not in a map of this epoch, there is no such pool. 0: not known.
    pub(super) pool_missing_since: Epoch,
    /// The caller's buffer, or what is left of it while a payload lands in the rest.
    pub(super) buffer: Option<SegmentMut>,
    /// Is a part of the buffer with the connection?
    pub(super) landing: bool,
    /// It has failed, and only waits for its buffer.
    pub(super) failed: Option<Error>,
}

impl<T> PendingOp<T> {
    /// No request.
    fn vacant() -> Self {
        Self {
            owner: Owner::Nobody,
            message: OsdOp {
                pg: SpgId::default(),
                hash: 0,
                epoch: 0,
                flags: 0,
                reqid: ReqId::default(),
                client_incarnation: 0,
                mtime: Utime::default(),
                locator: ObjectLocator::default(),
                object: ObjectName::default(),
                ops: SmallVec::new(),
                snap: NOSNAP,
                snap_context: SnapContext::default(),
                attempt: 0,
                features: features::ALL,
            },
            pool: 0,
            hashed: false,
            osd: NOBODY,
            replica: false,
            pg_num: 0,
            paused: false,
            sent_on: None,
            sent_at: Time::default(),
            since: Time::default(),
            sent_epoch: 0,
            attempts: 0,
            rejections: 0,
            submitted_as: 0,
            renewals: 0,
            redirects: 0,
            not_before: None,
            deadline: None,
            timeout: Duration::ZERO,
            cost: 0,
            no_pool: false,
            pool_missing_since: 0,
            buffer: None,
            landing: false,
            failed: None,
        }
    }

    /// Makes this what `request` asks for.
    #[inline(always)]
    pub(super) fn fill(&mut self, now: Time, request: Request, owner: Owner<T>, timeout: Option<Duration>) {
        self.owner = owner;
        let message = &mut self.message;
        message.hash = request.group.unwrap_or_default();
        message.mtime = request.mtime.unwrap_or_else(|| Utime::from(now));
        message.locator.key = request.key;
        message.locator.namespace = request.namespace;
        message.object = request.object;
        message.ops = request.ops;
        message.snap = request.snap;
        message.snap_context = request.snap_context;
        self.pool = request.pool;
        self.hashed = request.group.is_some();
        (self.sent_at, self.since) = (now, now);
        self.timeout = timeout.unwrap_or_default();
        self.deadline = timeout.map(|timeout| now + timeout);
        self.buffer = request.read_into;
    }

    /// Makes this no request, and returns who asked, the buffer, and what it cost.
    #[inline]
    fn vacate(&mut self) -> (Owner<T>, Option<SegmentMut>, u64) {
        self.message.ops.clear();
        self.message.locator.hash = -1;
        self.message.reqid = ReqId::default();
        (self.osd, self.replica, self.paused) = (NOBODY, false, false);
        (self.sent_on, self.sent_epoch, self.attempts, self.rejections) = (None, 0, 0, 0);
        (self.renewals, self.redirects, self.not_before) = (0, 0, None);
        (self.no_pool, self.pool_missing_since) = (false, 0);
        (self.landing, self.failed) = (false, None);
        (
            std::mem::replace(&mut self.owner, Owner::Nobody),
            self.buffer.take(),
            std::mem::take(&mut self.cost),
        )
    }

    /// A part of the buffer comes back from a connection.
    pub(super) fn take_back(&mut self, mut part: SegmentMut) {
        if let Some(rest) = self.buffer.take() {
            part.try_join(rest).expect("the part was cut off the front of the buffer");
        }
        self.buffer = Some(part);
        self.landing = false;
    }
}

/// A place for a request. It is filled and emptied where it is, because a request is large.
#[derive(Debug)]
struct Slot<T> {
    /// 0: the slot is free.
    tid: u64,
    op: PendingOp<T>,
}

/// The requests in flight.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    submitted: u64,
}

impl<T> Table<T> {
    /// The most requests there can be, those of watches included.
    pub(super) const MAX: usize = 1 << SLOT_BITS;

    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), submitted: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gives a request an id and a place, which is as [`PendingOp::vacant`] makes it.
    ///
    /// # Panics
    /// If there are [`Table::MAX`] already.
    #[inline]
    pub(super) fn claim(&mut self) -> (u64, &mut PendingOp<T>) {
        self.submitted += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { tid: 0, op: PendingOp::vacant() });
            u16::try_from(self.slots.len() - 1).expect("requests in flight are bounded")
        });
        let place = &mut self.slots[usize::from(slot)];
        place.tid = self.submitted << SLOT_BITS | u64::from(slot);
        place.op.submitted_as = place.tid;
        (place.tid, &mut place.op)
    }

    /// Gives a request another id, as if it were submitted now: nobody takes it for the one that it was.
    pub(super) fn renew(&mut self, tid: u64) -> Option<(u64, &mut PendingOp<T>)> {
        let slot = self.slot(tid);
        let place = self.slots.get_mut(slot).filter(|place| place.tid == tid)?;
        self.submitted += 1;
        place.tid = self.submitted << SLOT_BITS | slot as u64;
        Some((place.tid, &mut place.op))
    }

    /// The id of the request that was submitted with this one, if it is still in flight.
    pub(super) fn current(&self, submitted_as: u64) -> Option<u64> {
        let place = self.slots.get(self.slot(submitted_as))?;
        (place.tid != 0 && place.op.submitted_as == submitted_as).then_some(place.tid)
    }

    #[inline]
    fn slot(&self, tid: u64) -> usize {
        (tid & (Self::MAX as u64 - 1)) as usize
    }

    #[inline]
    pub(super) fn get_mut(&mut self, tid: u64) -> Option<&mut PendingOp<T>> {
        let slot = self.slot(tid);
        self.slots.get_mut(slot).filter(|slot| slot.tid == tid).map(|slot| &mut slot.op)
    }

    #[inline]
    pub(super) fn get(&self, tid: u64) -> Option<&PendingOp<T>> {
        self.slots.get(self.slot(tid)).filter(|slot| slot.tid == tid).map(|slot| &slot.op)
    }

    /// Takes a request out, and returns what of it outlives it.
    #[inline]
    pub(super) fn remove(&mut self, tid: u64) -> Option<(Owner<T>, Option<SegmentMut>, u64)> {
        let slot = self.slot(tid);
        let place = self.slots.get_mut(slot).filter(|slot| slot.tid == tid)?;
        place.tid = 0;
        self.free.push(slot as u16);
        Some(place.op.vacate())
    }

    /// The requests that `wanted` chooses, in the order of their submission. It looks at all: for rare occasions.
    pub(super) fn ordered(&self, wanted: impl Fn(&PendingOp<T>) -> bool) -> Vec<u64> {
        let mut tids: Vec<u64> =
            self.slots.iter().filter(|slot| slot.tid != 0 && wanted(&slot.op)).map(|slot| slot.tid).collect();
        tids.sort_unstable();
        tids
    }

    /// The id that was given last.
    pub(super) fn last(&self) -> u64 {
        self.submitted << SLOT_BITS | (Self::MAX as u64 - 1)
    }

    /// All requests, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingOp<T>> {
        self.slots.iter().filter(|slot| slot.tid != 0).map(|slot| &slot.op)
    }
}
