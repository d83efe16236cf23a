//! Messages between clients and monitors.

use crate::types::Uuid;
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode};
use onego_msgr::types::{Payload, kind};
use onego_msgr::types::{decode_service_head, encode_service_head};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// Subscription of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    /// First epoch; 0: the newest.
    pub start: u64,
    /// A single update is enough (`CEPH_SUBSCRIBE_ONETIME`).
    pub once: bool,
}

/// Subscribes to maps and their changes (`MMonSubscribe`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscribe {
    /// Subscriptions by name: "osdmap", "monmap", "config", "mgrmap".
    pub what: BTreeMap<String, Subscription>,
    /// Name of the client's host.
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

/// Acknowledgement of a subscription (`MMonSubscribeAck`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscribeAck {
    /// Seconds until the client should renew it.
    pub interval: u32,
    /// Id of the cluster.
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

/// Encoded monitor map (`MMonMap`).
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

/// Requests the monitor map (`MMonGetMap`).
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

/// Settings of a client in the cluster (`MConfig`).
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

/// Queries the newest version of a map (`MMonGetVersion`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetVersion {
    /// Id of the query.
    pub handle: u64,
    /// Name of the map: "osdmap", "monmap".
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

/// Newest version of a map (`MMonGetVersionReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetVersionReply {
    /// Id of the query.
    pub handle: u64,
    /// Newest version.
    pub newest: u64,
    /// Oldest version that the monitors keep.
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

/// Pings a daemon, or answers (`MPing`): a monitor reports its health and state as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ping {
    /// Answer of a monitor; empty in a request.
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

/// Command, like those of `ceph` (`MMonCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonCommand {
    /// Id of the cluster; zero: any.
    pub fsid: Uuid,
    /// Command: one string of JSON.
    pub command: Vec<String>,
    /// Input of the command.
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

/// Result of a command (`MMonCommandAck`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandReply {
    /// 0, or a negative errno.
    pub result: i32,
    /// Message for the user.
    pub status: String,
    /// Command of the request.
    pub command: Vec<String>,
    /// Output of the command.
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

/// Queries the usage of the cluster (`MStatfs`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statfs {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Restricts the query to the view of this pool's users.
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

/// Usage of the cluster (`MStatfsReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatfsReply {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Version of the statistics.
    pub version: u64,
    /// Capacity in KiB.
    pub kb: u64,
    /// Used space in KiB.
    pub kb_used: u64,
    /// Free space in KiB.
    pub kb_avail: u64,
    /// Number of objects.
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

/// Kind of a [`PoolOp`] (`POOL_OP_*`).
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
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Pool; 0 on creation.
    pub pool: u32,
    /// Kind of the operation.
    pub op: PoolOpKind,
    /// Snapshot.
    pub snap: u64,
    /// Name of the new pool or snapshot.
    pub name: String,
    /// Rule of a new pool; -1: the default.
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
        w.u64(0); // formerly the owner
        w.u64(self.snap);
        w.string(&self.name);
        w.u8(0); // formerly the rule
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

/// Result of a [`PoolOp`] (`MPoolOpReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolOpReply {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// 0, or a negative errno.
    pub result: i32,
    /// Epoch of the OSD map with the change.
    pub epoch: u32,
    /// Output of the operation: the id of a new snapshot.
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
