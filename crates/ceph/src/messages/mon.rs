//! What clients and monitors say to each other.

use crate::types::Uuid;
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode};
use onego_msgr::types::{Payload, kind};
use onego_msgr::types::{decode_service_head, encode_service_head};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// One thing that a client wants to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    /// The first epoch wanted; 0: the newest.
    pub start: u64,
    /// One update is enough (`CEPH_SUBSCRIBE_ONETIME`).
    pub once: bool,
}

/// Asks for maps, now and as they change (`MMonSubscribe`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscribe {
    /// What is wanted, by its name: "osdmap", "monmap", "config", "mgrmap".
    pub what: BTreeMap<String, Subscription>,
    /// The client's host.
    pub hostname: String,
}

impl Payload for Subscribe {
    const KIND: u16 = kind::MON_SUBSCRIBE;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.count(self.what.len());
        for (name, subscription) in &self.what {
            w.string(name);
            w.u64(subscription.start);
            w.u8(subscription.once.into());
        }
        w.string(&self.hostname);
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let n = r.count(13, "subscriptions")?;
        let mut what = BTreeMap::new();
        for _ in 0..n {
            let name = r.string("subscription")?;
            let start = r.u64("start")?;
            what.insert(name, Subscription { start, once: r.u8("flags")? & 1 != 0 });
        }
        Ok(Self { what, hostname: if version >= 3 { r.string("hostname")? } else { String::new() } })
    }
}

/// A monitor has taken a subscription (`MMonSubscribeAck`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscribeAck {
    /// Seconds until the client should renew it.
    pub interval: u32,
    /// The cluster.
    pub fsid: Uuid,
}

impl Payload for SubscribeAck {
    const KIND: u16 = kind::MON_SUBSCRIBE_ACK;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.u32(self.interval);
        self.fsid.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { interval: r.u32("interval")?, fsid: Uuid::decode(r)? })
    }
}

/// The monitors of the cluster (`MMonMap`), still encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonMapMessage {
    /// See [`crate::monmap`].
    pub map: Vec<u8>,
}

impl Payload for MonMapMessage {
    const KIND: u16 = kind::MON_MAP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.blob(&self.map);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        Ok(Self { map: Reader::new(front).blob("monmap")?.to_vec() })
    }
}

/// Asks for the monitors of the cluster (`MMonGetMap`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetMonMap;

impl Payload for GetMonMap {
    const KIND: u16 = kind::MON_GET_MAP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, _: &mut Writer, _: &mut List) {}

    fn decode(_: u16, _: &[u8], _: List) -> Decoded<Self> {
        Ok(Self)
    }
}

/// Settings that the cluster keeps for a client (`MConfig`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Names and values.
    pub settings: BTreeMap<String, String>,
}

impl Payload for Config {
    const KIND: u16 = kind::CONFIG;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.settings.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        Ok(Self { settings: BTreeMap::decode(&mut Reader::new(front))? })
    }
}

/// Asks for the newest version of a map (`MMonGetVersion`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetVersion {
    /// Names the question.
    pub handle: u64,
    /// The map: "osdmap", "monmap".
    pub what: String,
}

impl Payload for GetVersion {
    const KIND: u16 = kind::MON_GET_VERSION;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.u64(self.handle);
        w.string(&self.what);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { handle: r.u64("handle")?, what: r.string("map")? })
    }
}

/// The newest version of a map (`MMonGetVersionReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetVersionReply {
    /// The question's handle.
    pub handle: u64,
    /// The newest version.
    pub newest: u64,
    /// The oldest version that the monitors keep.
    pub oldest: u64,
}

impl Payload for GetVersionReply {
    const KIND: u16 = kind::MON_GET_VERSION_REPLY;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.u64(self.handle);
        w.u64(self.newest);
        w.u64(self.oldest);
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self {
            handle: r.u64("handle")?,
            newest: r.u64("newest version")?,
            oldest: if version >= 2 { r.u64("oldest version")? } else { 0 },
        })
    }
}

/// Asks a daemon for a sign of life, or is one (`MPing`): a monitor tells its health and its state, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ping {
    /// What a monitor says; empty in a question.
    pub said: String,
}

impl Payload for Ping {
    const KIND: u16 = kind::PING;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        if !self.said.is_empty() {
            w.string(&self.said);
        }
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let said = if front.is_empty() { &[][..] } else { r.blob("ping")? };
        Ok(Self { said: String::from_utf8_lossy(said).into_owned() })
    }
}

/// A command, as the `ceph` program gives them (`MMonCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonCommand {
    /// The cluster; zero: any.
    pub fsid: Uuid,
    /// The command: one string of JSON.
    pub command: Vec<String>,
    /// The command's input.
    pub input: List,
}

impl Payload for MonCommand {
    const KIND: u16 = kind::MON_COMMAND;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        encode_service_head(w, 0);
        self.fsid.encode(w);
        self.command.encode(w);
        data.append(self.input.clone());
    }

    fn decode(_: u16, front: &[u8], data: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        Ok(Self { fsid: Uuid::decode(r)?, command: Vec::decode(r)?, input: data })
    }
}

/// A command's outcome (`MMonCommandAck`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandReply {
    /// 0, or a negative errno.
    pub result: i32,
    /// What to tell the user.
    pub status: String,
    /// The command, again.
    pub command: Vec<String>,
    /// The command's output.
    pub output: List,
}

impl Payload for CommandReply {
    const KIND: u16 = kind::MON_COMMAND_ACK;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        encode_service_head(w, 0);
        w.i32(self.result);
        w.string(&self.status);
        self.command.encode(w);
        data.append(self.output.clone());
    }

    fn decode(_: u16, front: &[u8], data: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        let result = r.i32("result")?;
        let status = String::from_utf8_lossy(r.blob("status")?).into_owned();
        Ok(Self { result, status, command: Vec::decode(r)?, output: data })
    }
}

/// Asks how full the cluster is (`MStatfs`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statfs {
    /// The cluster.
    pub fsid: Uuid,
    /// As seen by users of this pool.
    pub data_pool: Option<i64>,
}

impl Payload for Statfs {
    const KIND: u16 = kind::STATFS;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, 0);
        self.fsid.encode(w);
        w.bool(self.data_pool.is_some());
        if let Some(pool) = self.data_pool {
            w.i64(pool);
        }
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        let fsid = Uuid::decode(r)?;
        let data_pool = if version >= 2 && r.bool("data pool")? { Some(r.i64("data pool")?) } else { None };
        Ok(Self { fsid, data_pool })
    }
}

/// How full the cluster is (`MStatfsReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatfsReply {
    /// The cluster.
    pub fsid: Uuid,
    /// Version of the statistics.
    pub version: u64,
    /// KiB in all.
    pub kb: u64,
    /// KiB used.
    pub kb_used: u64,
    /// KiB free.
    pub kb_avail: u64,
    /// Objects.
    pub objects: u64,
}

impl Payload for StatfsReply {
    const KIND: u16 = kind::STATFS_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.fsid.encode(w);
        for value in [self.version, self.kb, self.kb_used, self.kb_avail, self.objects] {
            w.u64(value);
        }
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self {
            fsid: Uuid::decode(r)?,
            version: r.u64("version")?,
            kb: r.u64("size")?,
            kb_used: r.u64("used")?,
            kb_avail: r.u64("available")?,
            objects: r.u64("objects")?,
        })
    }
}

/// What a [`PoolOp`] does (`POOL_OP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PoolOpKind {
    Create = 0x01,
    Delete = 0x02,
    CreateSnap = 0x11,
    DeleteSnap = 0x12,
    CreateUnmanagedSnap = 0x21,
    DeleteUnmanagedSnap = 0x22,
}

/// Changes a pool (`MPoolOp`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOp {
    /// The cluster.
    pub fsid: Uuid,
    /// The pool; 0 on creation.
    pub pool: u32,
    /// What to do.
    pub op: PoolOpKind,
    /// The snapshot meant.
    pub snap: u64,
    /// Name of the new pool or snapshot.
    pub name: String,
    /// Rule for a new pool; -1: the default.
    pub crush_rule: i16,
}

impl Payload for PoolOp {
    const KIND: u16 = kind::POOL_OP;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 2;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, 0);
        self.fsid.encode(w);
        w.u32(self.pool);
        w.u32(self.op as u32);
        w.u64(0); // once the owner
        w.u64(self.snap);
        w.string(&self.name);
        w.u8(0); // once the rule
        w.i16(self.crush_rule);
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        if version < 4 {
            return Err(DecodeError::TooOld { what: "poolop", version: version as u8, oldest: 4 });
        }
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        let (fsid, pool) = (Uuid::decode(r)?, r.u32("pool")?);
        let op = match r.u32("pool operation")? {
            0x01 => PoolOpKind::Create,
            0x02 => PoolOpKind::Delete,
            0x11 => PoolOpKind::CreateSnap,
            0x12 => PoolOpKind::DeleteSnap,
            0x21 => PoolOpKind::CreateUnmanagedSnap,
            0x22 => PoolOpKind::DeleteUnmanagedSnap,
            value => return Err(DecodeError::Invalid { what: "pool operation", value: value.into() }),
        };
        r.u64("owner")?;
        let (snap, name) = (r.u64("snapshot")?, r.string("name")?);
        r.u8("rule")?;
        Ok(Self { fsid, pool, op, snap, name, crush_rule: r.i16("rule")? })
    }
}

/// The outcome of a [`PoolOp`] (`MPoolOpReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolOpReply {
    /// The cluster.
    pub fsid: Uuid,
    /// 0, or a negative errno.
    pub result: i32,
    /// The map that shows the change.
    pub epoch: u32,
    /// What the operation gave: the id of a new snapshot.
    pub output: Option<Vec<u8>>,
}

impl Payload for PoolOpReply {
    const KIND: u16 = kind::POOL_OP_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, 0);
        self.fsid.encode(w);
        w.i32(self.result);
        w.u32(self.epoch);
        w.bool(self.output.is_some());
        if let Some(output) = &self.output {
            w.blob(output);
        }
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        let (fsid, result, epoch) = (Uuid::decode(r)?, r.i32("result")?, r.u32("epoch")?);
        let output = if r.bool("output")? { Some(r.blob("output")?.to_vec()) } else { None };
        Ok(Self { fsid, result, epoch, output })
    }
}
