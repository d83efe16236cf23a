//! What an OSD answers, on virtual time.

mod admission;
mod copies;
mod data;
mod memory;
mod metadata;
mod model;
mod rights;
mod scale;
mod snapshot_model;
mod snapshots;
mod space;
mod tmap;
mod watching;

use super::errno::Errno;
use super::{Config, CopySources, Name, Osd, RequestContext, Rights, SessionId, Transaction, UserId};
use onego_buf::List;
use onego_ceph::messages::{ObjectName, OsdOp, OsdOpReply};
use onego_ceph::ops::{Op, flag};
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::types::{EntityName, NOSNAP, ObjectLocator, PgId, ReqId, SnapContext, SpgId, Utime};
use onego_msgr::addr::EntityAddr;
use onego_wire::Time;
use std::collections::BTreeMap;
use std::time::Duration;

const POOL: i64 = 3;
const CLIENT: SessionId = SessionId(1);
const OTHER: SessionId = SessionId(2);

/// An OSD with two clients.
pub(crate) struct Bench {
    pub(crate) osd: Osd,
    map: OsdMap,
    now: Time,
    tid: u64,
    /// What the last request has changed.
    pub(crate) transaction: Option<Box<Transaction>>,
}

pub(super) fn list(bytes: &[u8]) -> List {
    bytes.to_vec().into()
}

pub(crate) fn write(offset: u64, bytes: &[u8]) -> Op {
    Op::Write { offset, data: list(bytes) }
}

pub(super) fn read(offset: u64, length: u64) -> Op {
    Op::Read { offset, length }
}

impl Bench {
    pub(crate) const POOL: i64 = POOL;

    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let pool = Pool { pg_num: 8, pgp_num: 8, ..Pool::default() };
        let map = OsdMap { epoch: 7, pools: BTreeMap::from([(POOL, pool)]), ..OsdMap::default() };
        let mut osd = Osd::new(config);
        osd.session_opened(CLIENT, EntityName::client(100), UserId(100), address(1), Rights::everything());
        osd.session_opened(OTHER, EntityName::client(200), UserId(200), address(2), Rights::everything());
        Self { osd, map, now: Time::from_nanos(1_000_000_000), tid: 0, transaction: None }
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        if self.osd.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.osd.timeout(self.now);
        }
    }

    /// A request as a client with a current map makes it.
    fn request(&self, object: &str, ops: Vec<(Op, u32)>) -> OsdOp {
        let pool = &self.map.pools[&POOL];
        let hash = pool.hash_object(object.as_bytes(), b"", b"");
        OsdOp {
            pg: SpgId::whole(pool.pg(PgId { pool: POOL, seed: hash })),
            hash,
            epoch: self.map.epoch,
            flags: flag::ON_DISK,
            reqid: ReqId::default(),
            client_incarnation: 0,
            mtime: Utime { sec: 5, nsec: 0 },
            locator: ObjectLocator { pool: POOL, ..ObjectLocator::default() },
            object: ObjectName::from(object),
            ops: ops.into_iter().collect(),
            snap: NOSNAP,
            snap_context: SnapContext::default(),
            attempt: 0,
            features: 0,
        }
    }

    fn send(&mut self, session: SessionId, request: OsdOp) -> OsdOpReply {
        self.tid += 1;
        self.send_as(session, self.tid, request).expect("it is answered")
    }

    /// Sends the request with that number. `None`: it is dropped.
    fn send_as(&mut self, session: SessionId, tid: u64, mut request: OsdOp) -> Option<OsdOpReply> {
        let Self { map, now, .. } = self;
        let copies = CopySources::collect(&request, map, |_| Ok::<_, ()>(&self.osd)).expect("it is here");
        let room = self.osd.reply_bound(&request);
        let cx =
            RequestContext { now: *now, session, tid, map, peers_used: 0, record: 0, copies: &copies, room };
        let answer = self.osd.request(&cx, &mut request)?;
        self.transaction = answer.transaction;
        Some(answer.reply)
    }

    fn ask_as(&mut self, session: SessionId, object: &str, ops: Vec<Op>) -> OsdOpReply {
        let request = self.request(object, ops.into_iter().map(|op| (op, 0)).collect());
        self.send(session, request)
    }

    pub(crate) fn ask(&mut self, object: &str, ops: Vec<Op>) -> OsdOpReply {
        self.ask_as(CLIENT, object, ops)
    }

    /// The same, by a client that knows of these snapshots.
    pub(crate) fn ask_knowing(
        &mut self,
        snap_context: SnapContext,
        object: &str,
        ops: Vec<Op>,
    ) -> OsdOpReply {
        let mut request = self.request(object, ops.into_iter().map(|op| (op, 0)).collect());
        request.snap_context = snap_context;
        self.send(CLIENT, request)
    }

    /// The group of an object, and its name.
    pub(crate) fn place(object: &str) -> (PgId, Name) {
        let request = Self::new().request(object, Vec::new());
        (request.pg.pg, Name::of(&super::identity(&request)))
    }

    /// The result of one operation on the object `o`.
    pub(super) fn run(&mut self, op: Op) -> i32 {
        self.ask("o", vec![op]).result
    }

    /// The output of one operation on the object `o`.
    pub(super) fn get(&mut self, op: Op) -> Vec<u8> {
        let reply = self.ask("o", vec![op]);
        assert!(reply.result >= 0, "{}", reply.result);
        reply.ops[0].output.to_vec()
    }
}

fn address(n: u16) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], 4000 + n).into(), n.into())
}

/// An error as a result.
pub(super) const fn failed(error: Errno) -> i32 {
    error.result()
}
