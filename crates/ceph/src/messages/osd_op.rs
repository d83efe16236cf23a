//! Object request and reply.

use crate::ops::{DESCRIPTOR_LEN, Op};
use crate::types::{EVersion, EntityName, ObjectLocator, PgId, ReqId, SnapContext, SpgId, Utime};
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode, envelope};
use onego_msgr::types::{Payload, kind};
use onego_wire::{DecodeError, Decoded, Reader, Writer, text};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// Length of a tracing context, sent as zeros and ignored (`blkin_trace_info`).
const TRACE_LEN: usize = 24;

const HEAD_LEN: usize = 75 + TRACE_LEN;

/// Longest object name or locator key of an OSD, in bytes (`osd_max_object_name_len`).
pub const MAX_NAME_LEN: usize = 2048;

/// Longest namespace of an OSD, in bytes (`osd_max_object_namespace_len`).
pub const MAX_NAMESPACE_LEN: usize = 256;

/// Object name: bytes, stored inline up to the length of an RBD data object's name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectName(SmallVec<[u8; Self::INLINE]>);

impl ObjectName {
    /// Bytes of a name that need no allocation.
    pub const INLINE: usize = 48;

    /// Creates a name of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl Deref for ObjectName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for ObjectName {
    fn from(name: &str) -> Self {
        Self::new(&text::to_bytes(name))
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::from_bytes(&self.0))
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Object request (`MOSDOp`): operations on one object.
///
/// Its transaction id is in the message header.
#[derive(Debug, Clone, PartialEq)]
pub struct OsdOp {
    /// Placement group of the object, with its seed reduced to the pool's number of groups.
    pub pg: SpgId,
    /// Full hash of the object's name or locator.
    pub hash: u32,
    /// Epoch of the map that determined the OSD.
    pub epoch: u32,
    /// See [`crate::ops::flag`].
    pub flags: u32,
    /// Set for a request on behalf of another one; otherwise source and transaction id identify it.
    pub reqid: ReqId,
    /// Incarnation of the client within its session.
    pub client_incarnation: u32,
    /// Client's time of the change.
    pub mtime: Utime,
    /// Pool, namespace and key.
    pub locator: ObjectLocator,
    /// Name of the object; empty for operations on the placement group.
    pub object: ObjectName,
    /// Operations with their flags (see [`crate::ops::op_flag`]).
    pub ops: SmallVec<[(Op, u32); 2]>,
    /// Snapshot to read, or `NOSNAP` for the current object.
    pub snap: u64,
    /// Snapshots that a write preserves.
    pub snap_context: SnapContext,
    /// Number of earlier attempts; -1: unknown.
    pub attempt: i32,
    /// Feature bits of the client.
    pub features: u64,
}

impl OsdOp {
    /// Returns the front up to `mtime`, whose fields have fixed offsets: this is on the path of every I/O,
    /// and one append is far cheaper than two dozen.
    fn head(&self) -> [u8; HEAD_LEN] {
        let Self { pg: SpgId { pg, shard }, reqid, mtime, .. } = self;
        let mut head = [0; HEAD_LEN];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[1, 1, 18, 0, 0, 0]); // envelope of the group: version, compat, length
        put(6, &[1]); // version of pg_t
        put(7, &pg.pool.to_le_bytes());
        put(15, &pg.seed.to_le_bytes());
        put(19, &(-1i32).to_le_bytes()); // preferred OSD
        put(23, &shard.to_le_bytes());
        put(24, &self.hash.to_le_bytes());
        put(28, &self.epoch.to_le_bytes());
        put(32, &self.flags.to_le_bytes());
        put(36, &[2, 2, 21, 0, 0, 0]); // envelope of the request's id
        put(42, &[reqid.name.kind]);
        put(43, &reqid.name.num.to_le_bytes());
        put(51, &reqid.tid.to_le_bytes());
        put(59, &reqid.inc.to_le_bytes());
        put(63 + TRACE_LEN, &self.client_incarnation.to_le_bytes());
        put(67 + TRACE_LEN, &mtime.sec.to_le_bytes());
        put(71 + TRACE_LEN, &mtime.nsec.to_le_bytes());
        head
    }
}

/// Fields of [`OsdOp::head`].
struct Head {
    pg: SpgId,
    hash: u32,
    epoch: u32,
    flags: u32,
    reqid: ReqId,
    client_incarnation: u32,
    mtime: Utime,
}

impl Head {
    /// Reads the fields at their offsets in version 8, provided that all structures have their current versions.
    /// `None`: some have not, or the front is too short.
    #[inline]
    fn of(front: &[u8]) -> Option<Self> {
        let head = front.first_chunk::<HEAD_LEN>()?;
        let is_usual = head[..7] == [1, 1, 18, 0, 0, 0, 1] && head[36..42] == [2, 2, 21, 0, 0, 0];
        let u32_at = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("within the head"));
        let u64_at = |at: usize| u64::from_le_bytes(*head[at..].first_chunk().expect("within the head"));
        is_usual.then(|| Self {
            pg: SpgId { pg: PgId { pool: u64_at(7) as i64, seed: u32_at(15) }, shard: head[23] as i8 },
            hash: u32_at(24),
            epoch: u32_at(28),
            flags: u32_at(32),
            reqid: ReqId {
                name: EntityName { kind: head[42], num: u64_at(43) as i64 },
                tid: u64_at(51),
                inc: u32_at(59) as i32,
            },
            client_incarnation: u32_at(63 + TRACE_LEN),
            mtime: Utime { sec: u32_at(67 + TRACE_LEN), nsec: u32_at(71 + TRACE_LEN) },
        })
    }

    fn decode(version: u16, r: &mut Reader<'_>) -> Decoded<Self> {
        let pg = SpgId::decode(r)?;
        let (hash, epoch, flags) = (r.u32("hash")?, r.u32("epoch")?, r.u32("flags")?);
        let reqid = ReqId::decode(r)?;
        r.take(TRACE_LEN, "trace")?;
        if version >= 9 {
            envelope(r, u8::MAX, "otel trace", |_, _| Ok(()))?;
        }
        let client_incarnation = r.u32("client incarnation")?;
        let mtime = Utime::decode(r)?;
        Ok(Self { pg, hash, epoch, flags, reqid, client_incarnation, mtime })
    }
}

impl Payload for OsdOp {
    const KIND: u16 = kind::OSD_OP;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 3;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        w.put(&self.head());
        self.locator.encode(w);
        w.blob(&self.object);
        w.u16(u16::try_from(self.ops.len()).expect("a request has at most MAX_OPS operations"));
        for (op, flags) in &self.ops {
            op.encode(*flags, w, data);
        }
        w.u64(self.snap);
        self.snap_context.encode(w);
        w.i32(self.attempt);
        w.u64(self.features);
    }

    fn decode(version: u16, front: &[u8], mut data: List) -> Decoded<Self> {
        Self::decode_with(version, front, |r| Op::decode(r, &mut data))
    }
}

impl OsdOp {
    /// Decodes a request whose input was not kept. All its operations are [`Op::Unknown`].
    pub fn decode_without_data(version: u16, front: &[u8]) -> Decoded<Self> {
        Self::decode_with(version, front, Op::decode_code)
    }

    fn decode_with(
        version: u16,
        front: &[u8],
        mut decode_op: impl FnMut(&mut Reader<'_>) -> Decoded<(Op, u32)>,
    ) -> Decoded<Self> {
        // Version 8 came with Luminous; all clients with msgr2 are newer.
        if version < 8 {
            return Err(DecodeError::TooOld { what: "osd_op", version: version as u8, oldest: 8 });
        }
        let r = &mut Reader::new(front);
        let Head { pg, hash, epoch, flags, reqid, client_incarnation, mtime } =
            match Head::of(front).filter(|_| version == 8) {
                Some(head) => {
                    r.take(HEAD_LEN, "head of a request")?;
                    head
                }
                None => Head::decode(version, r)?,
            };
        let locator = ObjectLocator::decode(r)?;
        let object = ObjectName::new(r.blob("object name")?);
        let count = r.u16("number of operations")? as usize;
        let (needed, left) = (count * DESCRIPTOR_LEN, r.left());
        if needed > left {
            return Err(DecodeError::Truncated { what: "operations", needed, left });
        }
        // Collecting results would move each operation twice more.
        let mut ops = SmallVec::with_capacity(count);
        for _ in 0..count {
            ops.push(decode_op(r)?);
        }
        Ok(Self {
            pg,
            hash,
            epoch,
            flags,
            reqid,
            client_incarnation,
            mtime,
            locator,
            object,
            ops,
            snap: r.u64("snapshot")?,
            snap_context: SnapContext::decode(r)?,
            attempt: r.i32("attempt")?,
            features: r.u64("features")?,
        })
    }
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpResult {
    /// Code of the operation (see [`crate::ops::code`]).
    pub code: u16,
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// Output of the operation.
    pub output: List,
}

/// Redirect of a request (`request_redirect_t`).
#[derive(Debug, Clone, PartialEq)]
pub struct Redirect {
    /// Pool, namespace and key to use.
    pub locator: ObjectLocator,
    /// Object name to use; empty: unchanged.
    pub object: ObjectName,
}

/// Reply to an object request (`MOSDOpReply`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OsdOpReply {
    /// Object name.
    pub object: ObjectName,
    /// Placement group.
    pub pg: PgId,
    /// Flags of the request, and `ON_DISK` once a change is applied.
    pub flags: u64,
    /// 0 or more, or a negative errno: that of the first operation whose failure counts.
    pub result: i32,
    /// Epoch of the OSD.
    pub epoch: u32,
    /// Results of the operations.
    pub ops: SmallVec<[OpResult; 2]>,
    /// Attempt of the request; -1: unknown.
    pub attempt: i32,
    /// Version after the change.
    pub replay_version: EVersion,
    /// Object version for users.
    pub user_version: u64,
    /// Set if the request must be sent elsewhere.
    pub redirect: Option<Redirect>,
}

impl OsdOpReply {
    /// Returns the bytes between object name and operations, in one piece like [`OsdOp::head`].
    #[inline]
    fn fixed(&self) -> [u8; PgId::WIRE_LEN + 28] {
        let mut fixed = [0; PgId::WIRE_LEN + 28];
        let mut put = |at: usize, bytes: &[u8]| fixed[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[1]); // version of pg_t
        put(1, &self.pg.pool.to_le_bytes());
        put(9, &self.pg.seed.to_le_bytes());
        put(13, &(-1i32).to_le_bytes()); // preferred OSD
        put(17, &self.flags.to_le_bytes());
        put(25, &self.result.to_le_bytes());
        // Readers without `replay_version` use this one.
        put(29, &self.user_version.to_le_bytes());
        put(37, &self.replay_version.epoch.to_le_bytes());
        put(41, &self.epoch.to_le_bytes());
        fixed
    }

    /// Returns the bytes between the operations' results and the redirect.
    #[inline]
    fn versions(&self) -> [u8; 21] {
        let mut versions = [0; 21];
        let mut put = |at: usize, bytes: &[u8]| versions[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.replay_version.version.to_le_bytes());
        put(8, &self.replay_version.epoch.to_le_bytes());
        put(12, &self.user_version.to_le_bytes());
        put(20, &[u8::from(self.redirect.is_some())]);
        versions
    }
}

impl Payload for OsdOpReply {
    const KIND: u16 = kind::OSD_OP_REPLY;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 2;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        w.blob(&self.object);
        w.put(&self.fixed());
        w.count(self.ops.len());
        for op in &self.ops {
            let len = u32::try_from(op.output.len()).expect("counts on the wire are 32 bits");
            let mut descriptor = [0; DESCRIPTOR_LEN];
            descriptor[..2].copy_from_slice(&op.code.to_le_bytes());
            descriptor[DESCRIPTOR_LEN - 4..].copy_from_slice(&len.to_le_bytes());
            w.put(&descriptor);
            if len > 0 {
                data.append(op.output.clone());
            }
        }
        w.i32(self.attempt);
        for op in &self.ops {
            w.i32(op.result);
        }
        w.put(&self.versions());
        if let Some(redirect) = &self.redirect {
            onego_msgr::encoding::write_envelope(w, 1, 1, |w| {
                redirect.locator.encode(w);
                w.blob(&redirect.object);
                w.u32(0);
            });
        }
        w.put(&[0; TRACE_LEN]);
    }

    fn decode(version: u16, front: &[u8], mut data: List) -> Decoded<Self> {
        if version < 7 {
            return Err(DecodeError::TooOld { what: "osd_op_reply", version: version as u8, oldest: 7 });
        }
        let r = &mut Reader::new(front);
        let object = ObjectName::new(r.blob("object name")?);
        let pg = PgId::decode(r)?;
        let (flags, result) = (r.u64("flags")?, r.i32("result")?);
        EVersion::decode(r)?;
        let epoch = r.u32("epoch")?;
        let count = r.count(DESCRIPTOR_LEN, "operations")?;
        let mut ops = SmallVec::<[OpResult; 2]>::with_capacity(count);
        for _ in 0..count {
            let code = r.u16("operation")?;
            r.take(DESCRIPTOR_LEN - 6, "operation")?;
            let len = r.u32("length of an operation's output")? as usize;
            if len > data.len() {
                return Err(DecodeError::Truncated {
                    what: "operation's output",
                    needed: len,
                    left: data.len(),
                });
            }
            ops.push(OpResult { code, result: 0, output: data.split_to(len) });
        }
        let attempt = r.i32("attempt")?;
        for op in &mut ops {
            op.result = r.i32("operation's result")?;
        }
        let replay_version = EVersion::decode(r)?;
        let user_version = r.u64("user version")?;
        let redirect = if r.bool("redirect")? { Some(decode_redirect(r)?) } else { None };
        Ok(Self { object, pg, flags, result, epoch, ops, attempt, replay_version, user_version, redirect })
    }
}

fn decode_redirect(r: &mut Reader<'_>) -> Decoded<Redirect> {
    envelope(r, 1, "redirect", |_, r| {
        Ok(Redirect { locator: ObjectLocator::decode(r)?, object: ObjectName::new(r.blob("object name")?) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::NOSNAP;
    use smallvec::smallvec;

    fn round_trip<P: Payload + PartialEq + fmt::Debug>(message: &P) {
        let (mut front, mut data) = (Writer::new(), List::new());
        message.encode(&mut front, &mut data);
        assert_eq!(&P::decode(P::VERSION, front.as_slice(), data.clone()).unwrap(), message);
        for end in 0..front.len().min(120) {
            assert!(P::decode(P::VERSION, &front.as_slice()[..end], data.clone()).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_request_survives_a_round_trip() {
        let pg = PgId { pool: 3, seed: 17 };
        round_trip(&OsdOp {
            pg: SpgId { pg, shard: -1 },
            hash: 0xdead_beef,
            epoch: 12,
            flags: 0x24,
            reqid: ReqId::default(),
            client_incarnation: 0,
            mtime: Utime { sec: 5, nsec: 6 },
            locator: ObjectLocator { pool: 3, namespace: "ns".into(), ..ObjectLocator::default() },
            object: ObjectName::from("rbd_data.1234.0000000000000000"),
            ops: smallvec![
                (Op::Write { offset: 4096, data: vec![7; 100].into() }, 0),
                (Op::Read { offset: 0, length: 8 }, 2)
            ],
            snap: NOSNAP,
            snap_context: SnapContext { seq: 4, snaps: vec![4, 2] },
            attempt: 1,
            features: u64::MAX,
        });
    }

    #[test]
    fn the_head_of_a_request_equals_its_encoded_fields() {
        let pg = SpgId { pg: PgId { pool: 1 << 40, seed: 0xa1b2_c3d4 }, shard: 3 };
        let reqid = ReqId { name: crate::types::EntityName { kind: 8, num: 1 << 50 }, tid: 1 << 60, inc: -2 };
        let (hash, epoch, flags) = (0x0102_0304, 0x0506_0708, 0x090a_0b0c);
        let (client_incarnation, mtime) = (0x0d0e_0f10, Utime { sec: 0x1112_1314, nsec: 0x1516_1718 });
        let request = OsdOp {
            pg,
            hash,
            epoch,
            flags,
            reqid,
            client_incarnation,
            mtime,
            locator: ObjectLocator::default(),
            object: ObjectName::default(),
            ops: smallvec![],
            snap: 0,
            snap_context: SnapContext::default(),
            attempt: 0,
            features: 0,
        };
        let mut w = Writer::new();
        pg.encode(&mut w);
        [hash, epoch, flags].into_iter().for_each(|field| w.u32(field));
        reqid.encode(&mut w);
        w.put(&[0; TRACE_LEN]);
        w.u32(client_incarnation);
        mtime.encode(&mut w);
        assert_eq!(request.head(), w.as_slice());

        let mut front = Writer::new();
        request.encode(&mut front, &mut List::new());
        assert!(Head::of(front.as_slice()).is_some() && Head::of(&w.as_slice()[1..]).is_none());
        assert_eq!(OsdOp::decode(8, front.as_slice(), List::new()), Ok(request.clone()));
        // A newer writer may append to the request id: the other fields have other offsets then, and are read one by one.
        let mut newer = front.as_slice().to_vec();
        (newer[36], newer[38]) = (3, 22);
        newer.insert(63, 0xff);
        assert_eq!(OsdOp::decode(8, &newer, List::new()), Ok(request));
    }

    #[test]
    fn the_fixed_parts_of_a_reply_equal_its_encoded_fields() {
        let reply = OsdOpReply {
            pg: PgId { pool: 1 << 40, seed: 0xa1b2_c3d4 },
            flags: 1 << 50,
            result: -7,
            epoch: 0x0506_0708,
            replay_version: EVersion { version: 1 << 60, epoch: 0x0102_0304 },
            user_version: 1 << 61,
            ..OsdOpReply::default()
        };
        let mut w = Writer::new();
        reply.pg.encode(&mut w);
        w.u64(reply.flags);
        w.i32(reply.result);
        EVersion { version: reply.user_version, ..reply.replay_version }.encode(&mut w);
        w.u32(reply.epoch);
        assert_eq!(reply.fixed(), w.as_slice());
        let mut w = Writer::new();
        reply.replay_version.encode(&mut w);
        w.u64(reply.user_version);
        w.bool(false);
        assert_eq!(reply.versions(), w.as_slice());
    }

    #[test]
    fn a_reply_survives_a_round_trip() {
        let op = OpResult { code: crate::ops::code::READ, result: -5, output: vec![1, 2, 3].into() };
        round_trip(&OsdOpReply {
            object: ObjectName::from("x"),
            pg: PgId { pool: 1, seed: 2 },
            flags: 4,
            result: -2,
            epoch: 9,
            ops: smallvec![op.clone(), OpResult { output: vec![4].into(), ..op }],
            attempt: 0,
            replay_version: EVersion { version: 8, epoch: 9 },
            user_version: 8,
            redirect: Some(Redirect { locator: ObjectLocator::default(), object: ObjectName::from("y") }),
        });
    }
}
