//! What a caller asks for, and what it gets.

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

/// Names a request that is in flight. Later ones compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(crate) u64);

/// Names a watch of an object (its cookie on the wire).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

impl WatchId {
    /// The client's name for the watch, as the OSD lists it.
    pub fn cookie(self) -> u64 {
        self.0
    }

    /// The watch that the OSD lists by this name.
    pub fn from_cookie(cookie: u64) -> Self {
        Self(cookie)
    }
}

/// A request: operations on one object, applied in order and as one.
#[derive(Debug)]
pub struct Request {
    /// The pool.
    pub pool: i64,
    /// The object's name.
    pub object: ObjectName,
    /// Hashed instead of the name unless it is empty.
    pub key: Vec<u8>,
    /// The namespace within the pool.
    pub namespace: Vec<u8>,
    /// The operations and their flags (see [`crate::ops::op_flag`]).
    pub ops: SmallVec<[(Op, u32); 2]>,
    /// See [`flag`]. `READ` and `WRITE` are added as the operations demand; for [`Op::Call`], which may do either, and
    /// is taken to read, the caller adds `WRITE`.
    pub flags: u32,
    /// The snapshot to read; [`NOSNAP`] is the object as it is.
    pub snap: u64,
    /// The snapshots that a write must keep.
    pub snap_context: SnapContext,
    /// The time that a change bears; `None`: when it is submitted.
    pub mtime: Option<Utime>,
    /// Where the bytes of a request go that is a single [`Op::Read`]: at least as many as are read. It comes back with
    /// the completion, always.
    pub read_into: Option<SegmentMut>,
    /// How long the request may be without a reply; `None`: as configured.
    pub timeout: Option<Duration>,
    /// Sends the request to the placement group with this hash instead of the object's.
    pub group: Option<u32>,
}

impl Request {
    /// A request without operations.
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

    /// A request with one operation.
    pub fn one(pool: i64, object: ObjectName, op: Op) -> Self {
        Self { ops: smallvec![(op, 0)], ..Self::new(pool, object) }
    }

    /// The same request with another operation behind.
    pub fn and(mut self, op: Op) -> Self {
        self.ops.push((op, 0));
        self
    }

    /// The same request within a namespace.
    pub fn in_namespace(mut self, namespace: impl AsRef<[u8]>) -> Self {
        namespace.as_ref().clone_into(&mut self.namespace);
        self
    }

    /// The same request with more flags.
    pub fn with_flags(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    /// The same request, with the bytes that it reads to go to `buffer`.
    pub fn read_into(mut self, buffer: SegmentMut) -> Self {
        self.read_into = Some(buffer);
        self
    }

    /// The flags that the operations demand, and the caller's.
    pub(crate) fn all_flags(&self) -> u32 {
        self.ops.iter().fold(self.flags | flag::ON_DISK | flag::KNOWN_REDIRECT, |flags, (op, _)| {
            let reads = op.reads() || matches!(op, Op::Call { .. });
            flags | if op.writes() { flag::WRITE } else { 0 } | if reads { flag::READ } else { 0 }
        })
    }

    /// Bytes that the request brings.
    pub(crate) fn payload(&self) -> u64 {
        let is_read = |op: &Op| matches!(op, Op::Read { .. } | Op::SparseRead { .. });
        self.ops.iter().filter(|(op, _)| !is_read(op)).map(|(op, _)| op_cost(op)).fold(0, u64::saturating_add)
    }

    /// Bytes that the request counts for against [`super::OsdConfig::max_bytes`].
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

/// An OSD's reply to a [`Request`]. It may say that the request failed: see [`OpReply::ok`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpReply {
    /// 0 or more, or a negative errno: the first failure that counts.
    pub result: i32,
    /// Version of the change.
    pub version: EVersion,
    /// Version of the object as its users count it.
    pub user_version: u64,
    /// What each operation gave.
    pub ops: SmallVec<[OpResult; 1]>,
    /// Bytes that were read into the request's buffer.
    pub filled: usize,
}

impl OpReply {
    /// Bytes that were read.
    pub(crate) fn bytes(&self) -> u64 {
        self.ops.iter().map(|op| op.output.len() as u64).sum::<u64>() + self.filled as u64
    }

    /// The reply, or, if it says that the request failed, the error.
    pub fn ok(self) -> Result<Self, Error> {
        if self.result < 0 { Err(Error::Refused { errno: self.result }) } else { Ok(self) }
    }
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The reply to a [`Request`].
    Reply(OpReply),
    /// The reply to a command.
    Command(CommandReply),
    /// How full the cluster is.
    Statfs(StatfsReply),
    /// How full pools are.
    PoolStats(GetPoolStatsReply),
    /// The reply to a pool operation.
    Pool(PoolOpReply),
    /// What a monitor says to a ping: its health, as JSON.
    Pong(String),
    /// The newest version of a map.
    Version(u64),
    /// The watch is established.
    Watching(WatchId),
    /// The watch is given up.
    Unwatched,
    /// The watchers' answers to a notification.
    Notified(Notified),
}

/// A request that is done with: once, whatever became of it.
#[derive(Debug)]
pub struct Completion<T> {
    /// What the caller gave with it.
    pub ticket: T,
    /// What came of it.
    pub outcome: Result<Outcome, Error>,
    /// The caller's buffer, if it gave one.
    pub buffer: Option<SegmentMut>,
}

impl<T> Completion<T> {
    /// The reply of a [`Request`] that succeeded.
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
    /// The pool.
    pub pool: i64,
    /// The object's name.
    pub object: ObjectName,
    /// The namespace within the pool.
    pub namespace: Vec<u8>,
}

/// The watchers' answers to a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notified {
    /// The answers: global id of the watcher, its name for the watch, what it says.
    pub answers: Vec<(u64, u64, Vec<u8>)>,
    /// Watchers that did not answer in time: global id, name for the watch.
    pub missed: Vec<(u64, u64)>,
}

impl Notified {
    /// Reads what an OSD sends when all have answered or the time is up (ceph `src/osd/Watch.cc`,
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

/// A request that was not taken, with all that was given.
#[derive(Debug)]
pub struct Rejected<T> {
    /// The request.
    pub request: Request,
    /// What the caller gave with it.
    pub ticket: T,
    /// Why: [`Error::Busy`], [`Error::Invalid`] or [`Error::Closed`].
    pub error: Error,
}

/// Something that nobody asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A session with a monitor is open.
    Monitor(EntityAddr),
    /// New entries of the cluster's log, if they are wanted ([`Client::want_log`](super::Client::want_log)).
    Log(Vec<LogEntry>),
    /// A newer map of the OSDs is here.
    Map(Epoch),
    /// A map cannot be used. What needs a newer one waits for a whole one that can.
    BadMap(Error),
    /// A connection failed. What was in flight on it is sent again: this is for those who watch over the network.
    Fault {
        /// Whom it went to; a monitor is named by its place in the list of those known.
        peer: EntityName,
        /// Where.
        addr: Option<EntityAddr>,
        /// What happened.
        error: Error,
    },
    /// Somebody notifies the watchers of an object: answer by [`Client::acknowledge`](super::Client::acknowledge).
    Notify {
        /// The watch.
        watch: WatchId,
        /// The notification.
        notify_id: u64,
        /// Global id of who notifies.
        notifier: u64,
        /// What it says.
        payload: List,
    },
    /// A watch is lost ([`Error::WatchLost`]). It is not renewed; unwatch it.
    WatchLost {
        /// The watch.
        watch: WatchId,
        /// Why.
        error: Error,
    },
}
