//! Table of requests in flight, indexed by their transaction ids.

use crate::client::error::Error;
use crate::client::request::{Request, WatchId};
use crate::messages::{ObjectName, OsdOp};
use crate::types::{Epoch, NOSNAP, ObjectLocator, ReqId, SnapContext, SpgId, Utime};
use onego_buf::SegmentMut;
use onego_msgr::features;
use onego_wire::{ConnId, Time};
use smallvec::SmallVec;
use std::time::Duration;

/// Number of low bits of a transaction id, which are the request's slot. The high bits count up, so that ids are never
/// reused and their order is that of submission.
const SLOT_BITS: u32 = 16;

/// No OSD serves the request: there is no map, no pool, or no OSD that is up.
pub(super) const NOBODY: i32 = -1;

#[derive(Debug)]
pub(super) enum Owner<T> {
    Caller(T),
    Register(WatchId),
    Ping(WatchId),
    Unwatch(T),
    /// Notification; a later message reports its end.
    Notify(WatchId),
    /// The result is ignored, as for acknowledgements.
    Nobody,
}

#[derive(Debug)]
pub(super) struct PendingOp<T> {
    pub(super) owner: Owner<T>,
    /// Message to send. Its placement group, epoch, flags and attempt are filled in before.
    pub(super) message: OsdOp,
    /// Pool of the request; a tier or a redirect may set another one in `message`.
    pub(super) pool: i64,
    pub(super) hashed: bool,
    pub(super) osd: i32,
    pub(super) replica: bool,
    /// Number of groups in the pool when the group was determined.
    pub(super) pg_num: u32,
    pub(super) paused: bool,
    /// Connection of the last attempt, while its reply is expected.
    pub(super) sent_on: Option<ConnId>,
    pub(super) sent_at: Time,
    pub(super) since: Time,
    pub(super) sent_epoch: Epoch,
    pub(super) attempts: i32,
    pub(super) rejections: u32,
    /// Original id: the request gets another one when it is resubmitted.
    submitted_as: u64,
    pub(super) renewals: u32,
    pub(super) redirects: u32,
    pub(super) not_before: Option<Time>,
    pub(super) deadline: Option<Time>,
    /// Time from submission to the deadline.
    pub(super) timeout: Duration,
    /// Bytes that count against the limit.
    pub(super) cost: u64,
    pub(super) no_pool: bool,
    /// The pool does not exist if a map of this epoch lacks it. 0: unknown.
    pub(super) pool_missing_since: Epoch,
    /// Caller's buffer, or the rest of it while a payload is received into its front.
    pub(super) buffer: Option<SegmentMut>,
    pub(super) landing: bool,
    /// The request has failed, and only waits for its buffer.
    pub(super) failed: Option<Error>,
}

impl<T> PendingOp<T> {
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

    /// Handles the return of the buffer's front from a connection.
    pub(super) fn take_back(&mut self, mut part: SegmentMut) {
        if let Some(rest) = self.buffer.take() {
            part.try_join(rest).expect("the part was cut off the front of the buffer");
        }
        self.buffer = Some(part);
        self.landing = false;
    }
}

/// Slot of a request. It is filled and cleared in place, because a request is large.
#[derive(Debug)]
struct Slot<T> {
    tid: u64,
    op: PendingOp<T>,
}

#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    submitted: u64,
}

impl<T> Table<T> {
    pub(super) const MAX: usize = 1 << SLOT_BITS;

    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), submitted: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Allocates an id and a slot, in the state of [`PendingOp::vacant`].
    ///
    /// # Panics
    /// If there are already [`Table::MAX`].
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

    /// Gives a request a new id, as if it were submitted now.
    pub(super) fn renew(&mut self, tid: u64) -> Option<(u64, &mut PendingOp<T>)> {
        let slot = self.slot(tid);
        let place = self.slots.get_mut(slot).filter(|place| place.tid == tid)?;
        self.submitted += 1;
        place.tid = self.submitted << SLOT_BITS | slot as u64;
        Some((place.tid, &mut place.op))
    }

    /// Returns the current id of the request that was submitted with this one, if it is still in flight.
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

    #[inline]
    pub(super) fn remove(&mut self, tid: u64) -> Option<(Owner<T>, Option<SegmentMut>, u64)> {
        let slot = self.slot(tid);
        let place = self.slots.get_mut(slot).filter(|slot| slot.tid == tid)?;
        place.tid = 0;
        self.free.push(slot as u16);
        Some(place.op.vacate())
    }

    /// Returns the selected requests in the order of submission. Scans all: meant for rare use.
    pub(super) fn ordered(&self, wanted: impl Fn(&PendingOp<T>) -> bool) -> Vec<u64> {
        let mut tids: Vec<u64> =
            self.slots.iter().filter(|slot| slot.tid != 0 && wanted(&slot.op)).map(|slot| slot.tid).collect();
        tids.sort_unstable();
        tids
    }

    /// Returns an upper bound of the ids so far.
    pub(super) fn last(&self) -> u64 {
        self.submitted << SLOT_BITS | (Self::MAX as u64 - 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingOp<T>> {
        self.slots.iter().filter(|slot| slot.tid != 0).map(|slot| &slot.op)
    }
}
