//! Requests of callers, and their results.

use super::error::Error;
use crate::messages::{
    CommandReply, GetPoolStatsReply, LogEntry, ObjectName, OpResult, PoolOpReply, StatfsReply,
};
use crate::ops::{Op, flag};
use crate::types::{EVersion, EntityName, Epoch, NOSNAP, SnapContext, Utime};
use onego_buf::{List, SegmentMut};
use onego_msgr::addr::EntityAddr;
use onego_wire::{Decoded, Reader};
use smallvec::{SmallVec, smallvec};
use std::time::Duration;

/// Id of a request in flight. Later ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(crate) u64);

/// Id of a watch (its cookie on the wire).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

impl WatchId {
    /// Returns the cookie, as the OSD lists it.
    pub fn cookie(self) -> u64 {
        self.0
    }

    /// Returns the watch with this cookie.
    pub fn from_cookie(cookie: u64) -> Self {
        Self(cookie)
    }
}

/// Operations on one object, applied atomically in order.
#[derive(Debug)]
pub struct Request {
    /// Pool.
    pub pool: i64,
    /// Name of the object.
    pub object: ObjectName,
    /// Locator key: hashed instead of the name unless empty.
    pub key: Vec<u8>,
    /// Namespace within the pool.
    pub namespace: Vec<u8>,
    /// Operations with their flags (see [`crate::ops::op_flag`]).
    pub ops: SmallVec<[(Op, u32); 2]>,
    /// See [`flag`]. `READ` and `WRITE` are added as the operations require; [`Op::Call`] counts as a read, so for a method
    /// that writes the caller adds `WRITE`.
    pub flags: u32,
    /// Snapshot to read; [`NOSNAP`] is the current object.
    pub snap: u64,
    /// Snapshots that a write preserves.
    pub snap_context: SnapContext,
    /// Modification time of a change; `None`: time of submission.
    pub mtime: Option<Utime>,
    /// Destination of a single [`Op::Read`], at least as long as the read. Always returned with
    /// the completion.
    pub read_into: Option<SegmentMut>,
    /// Timeout; `None`: as configured.
    pub timeout: Option<Duration>,
    /// Hash of a placement group to send the request to, instead of the object's.
    pub group: Option<u32>,
}

impl Request {
    /// Creates a request without operations.
    pub fn new(pool: i64, object: ObjectName) -> Self {
        Self {
            pool,
            object,
            key: Vec::new(),
            namespace: Vec::new(),
            ops: SmallVec::new(),
            flags: 0,
            snap: NOSNAP,
            snap_context: SnapContext::default(),
            mtime: None,
            read_into: None,
            timeout: None,
            group: None,
        }
    }

    /// Creates a request with one operation.
    pub fn one(pool: i64, object: ObjectName, op: Op) -> Self {
        Self { ops: smallvec![(op, 0)], ..Self::new(pool, object) }
    }

    /// Appends an operation.
    pub fn and(mut self, op: Op) -> Self {
        self.ops.push((op, 0));
        self
    }

    /// Sets the namespace.
    pub fn in_namespace(mut self, namespace: impl AsRef<[u8]>) -> Self {
        namespace.as_ref().clone_into(&mut self.namespace);
        self
    }

    /// Adds flags.
    pub fn with_flags(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    /// Sets the destination of the read.
    pub fn read_into(mut self, buffer: SegmentMut) -> Self {
        self.read_into = Some(buffer);
        self
    }

    pub(crate) fn all_flags(&self) -> u32 {
        self.ops.iter().fold(self.flags | flag::ON_DISK | flag::KNOWN_REDIRECT, |flags, (op, _)| {
            let reads = op.reads() || matches!(op, Op::Call { .. });
            flags | if op.writes() { flag::WRITE } else { 0 } | if reads { flag::READ } else { 0 }
        })
    }

    pub(crate) fn payload(&self) -> u64 {
        let is_read = |op: &Op| matches!(op, Op::Read { .. } | Op::SparseRead { .. });
        self.ops.iter().filter(|(op, _)| !is_read(op)).map(|(op, _)| op_cost(op)).fold(0, u64::saturating_add)
    }

    pub(crate) fn cost(&self) -> u64 {
        self.ops.iter().map(|(op, _)| op_cost(op)).fold(0, u64::saturating_add)
    }
}

fn op_cost(op: &Op) -> u64 {
    match op {
        Op::Read { length, .. } | Op::SparseRead { length, .. } => *length,
        Op::Write { data, .. }
        | Op::CmpExt { data, .. }
        | Op::WriteFull { data }
        | Op::WriteSame { data, .. }
        | Op::Append { data } => data.len() as u64,
        Op::Call { input, .. } | Op::TmapPut { input } | Op::TmapUpdate { input } => input.len() as u64,
        Op::SetXattr { value, .. } => value.len() as u64,
        Op::OmapSetHeader { header } => header.len() as u64,
        Op::OmapSetVals { entries } => {
            entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
        }
        _ => 0,
    }
}

/// OSD's reply to a [`Request`], which may report a failure: see [`OpReply::ok`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpReply {
    /// 0 or more, or a negative errno: that of the first operation whose failure counts.
    pub result: i32,
    /// Version after the change.
    pub version: EVersion,
    /// Object version for users.
    pub user_version: u64,
    /// Results of the operations.
    pub ops: SmallVec<[OpResult; 1]>,
    /// Bytes read into the request's buffer.
    pub filled: usize,
}

impl OpReply {
    pub(crate) fn bytes(&self) -> u64 {
        self.ops.iter().map(|op| op.output.len() as u64).sum::<u64>() + self.filled as u64
    }

    /// Returns the reply, or the error that it reports.
    pub fn ok(self) -> Result<Self, Error> {
        if self.result < 0 { Err(Error::Refused { errno: self.result }) } else { Ok(self) }
    }
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Reply to a [`Request`].
    Reply(OpReply),
    /// Reply to a command.
    Command(CommandReply),
    /// Usage of the cluster.
    Statfs(StatfsReply),
    /// Usage of pools.
    PoolStats(GetPoolStatsReply),
    /// Reply to a pool operation.
    Pool(PoolOpReply),
    /// Monitor's answer to a ping: its health, as JSON.
    Pong(String),
    /// Newest version of a map.
    Version(u64),
    /// The watch is established.
    Watching(WatchId),
    /// The watch has ended.
    Unwatched,
    /// Watchers' answers to a notification.
    Notified(Notified),
}

/// End of a request; each has exactly one.
#[derive(Debug)]
pub struct Completion<T> {
    /// Caller's ticket.
    pub ticket: T,
    /// Result.
    pub outcome: Result<Outcome, Error>,
    /// Caller's buffer, if it passed one.
    pub buffer: Option<SegmentMut>,
}

impl<T> Completion<T> {
    /// Returns the reply of a [`Request`] that succeeded.
    pub fn into_reply(self) -> Result<OpReply, Error> {
        match self.outcome? {
            Outcome::Reply(reply) => reply.ok(),
            _ => Err(Error::Mismatch("it is of another kind")),
        }
    }
}

/// An object to watch or to notify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchTarget {
    /// Pool.
    pub pool: i64,
    /// Name of the object.
    pub object: ObjectName,
    /// Namespace within the pool.
    pub namespace: Vec<u8>,
}

/// Watchers' answers to a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notified {
    /// Answers: global id of the watcher, cookie, payload.
    pub answers: Vec<(u64, u64, Vec<u8>)>,
    /// Watchers that did not answer in time: global id, cookie.
    pub missed: Vec<(u64, u64)>,
}

impl Notified {
    /// Decodes the message that an OSD sends after all answers or the timeout (ceph `src/osd/Watch.cc`,
    /// Notify::maybe_complete_notify).
    pub(super) fn decode(bytes: &[u8]) -> Decoded<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let r = &mut Reader::new(bytes);
        let n = r.count(20, "answers")?;
        let answers = (0..n)
            .map(|_| Ok((r.u64("watcher")?, r.u64("cookie")?, r.blob("answer")?.to_vec())))
            .collect::<Decoded<_>>()?;
        let n = r.count(16, "watchers without an answer")?;
        let missed = (0..n).map(|_| Ok((r.u64("watcher")?, r.u64("cookie")?))).collect::<Decoded<_>>()?;
        Ok(Self { answers, missed })
    }
}

/// Rejected request, with everything that was passed.
#[derive(Debug)]
pub struct Rejected<T> {
    /// Request.
    pub request: Request,
    /// Caller's ticket.
    pub ticket: T,
    /// [`Error::Busy`], [`Error::Invalid`] or [`Error::Closed`].
    pub error: Error,
}

/// Unsolicited news.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A session with a monitor is open.
    Monitor(EntityAddr),
    /// New entries of the cluster's log, if subscribed ([`Client::want_log`](super::Client::want_log)).
    Log(Vec<LogEntry>),
    /// A newer OSD map has arrived.
    Map(Epoch),
    /// A map is invalid. Requests that need a newer one wait for a valid full map.
    BadMap(Error),
    /// A connection failed. Its requests are resent: the event is only for monitoring.
    Fault {
        /// Peer; a monitor is identified by its index in the list of known ones.
        peer: EntityName,
        /// Its address.
        addr: Option<EntityAddr>,
        /// Error of the connection.
        error: Error,
    },
    /// A notification of a watched object: answer it with [`Client::acknowledge`](super::Client::acknowledge).
    Notify {
        /// Watch.
        watch: WatchId,
        /// Id of the notification.
        notify_id: u64,
        /// Global id of the notifier.
        notifier: u64,
        /// Payload.
        payload: List,
    },
    /// A watch is lost ([`Error::WatchLost`]). It is not renewed; unwatch it.
    WatchLost {
        /// Watch.
        watch: WatchId,
        /// Reason.
        error: Error,
    },
}
