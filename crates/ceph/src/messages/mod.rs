//! The messages that clients, monitors and OSDs exchange, apart from how they are framed.
//!
//! Each is a plain structure with a [`Payload`] implementation: a front that is decoded and a data part that is
//! only ever passed on. Sources: ceph `src/messages/M*.h`, linux `net/ceph/{mon_client,osd_client}.c`.

mod auth;
mod log;
mod mon;
mod osd;
mod osd_op;

pub use auth::{Auth, AuthReply};
pub use log::{Log, LogEntry, LogLevel};
pub use mon::{
    CommandReply, Config, GetMonMap, GetVersion, GetVersionReply, MonCommand, MonMapMessage, PoolOp,
    PoolOpKind, PoolOpReply, Statfs, StatfsReply, Subscribe, SubscribeAck, Subscription,
};
pub use osd::{Backoff, BackoffOp, MapUpdate, WatchEvent, WatchNotify};
pub use osd_op::{MAX_NAME_LEN, ObjectName, OpResult, OsdOp, OsdOpReply, Redirect};

use onego_buf::List;
use onego_wire::{Decoded, Writer};

/// Numbers of message types (`CEPH_MSG_*`, `MSG_*`).
#[allow(missing_docs)]
pub mod kind {
    pub const PING: u16 = 2;
    pub const MON_MAP: u16 = 4;
    pub const MON_GET_MAP: u16 = 5;
    pub const STATFS: u16 = 13;
    pub const STATFS_REPLY: u16 = 14;
    pub const MON_SUBSCRIBE: u16 = 15;
    pub const MON_SUBSCRIBE_ACK: u16 = 16;
    pub const AUTH: u16 = 17;
    pub const AUTH_REPLY: u16 = 18;
    pub const MON_GET_VERSION: u16 = 19;
    pub const MON_GET_VERSION_REPLY: u16 = 20;
    pub const OSD_MAP: u16 = 41;
    pub const OSD_OP: u16 = 42;
    pub const OSD_OP_REPLY: u16 = 43;
    pub const WATCH_NOTIFY: u16 = 44;
    pub const POOL_OP_REPLY: u16 = 48;
    pub const POOL_OP: u16 = 49;
    pub const MON_COMMAND: u16 = 50;
    pub const MON_COMMAND_ACK: u16 = 51;
    pub const LOG: u16 = 52;
    pub const GET_POOL_STATS: u16 = 58;
    pub const GET_POOL_STATS_REPLY: u16 = 59;
    pub const OSD_BACKOFF: u16 = 61;
    pub const CONFIG: u16 = 62;
    pub const GET_CONFIG: u16 = 63;
    pub const COMMAND: u16 = 97;
    pub const COMMAND_REPLY: u16 = 98;
    pub const MGR_MAP: u16 = 0x704;
}

/// A message's content.
pub trait Payload: Sized {
    /// Number of the message type.
    const KIND: u16;
    /// Version of the layout that [`encode`](Self::encode) writes.
    const VERSION: u16;
    /// The oldest layout that a reader must know to read it.
    const COMPAT: u16;

    /// Appends the front to `front` and the data to `data`.
    fn encode(&self, front: &mut Writer, data: &mut List);

    /// Reads the message that a writer of `version` wrote.
    fn decode(version: u16, front: &[u8], data: List) -> Decoded<Self>;
}
