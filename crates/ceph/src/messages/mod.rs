//! Messages between clients, monitors and OSDs, without their framing.
//!
//! Each is a plain structure with a [`Payload`] implementation: a front, which is decoded, and a data part, which is
//! only passed on. Sources: ceph `src/messages/M*.h`, linux `net/ceph/{mon_client,osd_client}.c`.

mod log;
mod mon;
mod osd;
mod osd_op;
mod pool_stats;
mod service;
mod tell;

pub use onego_msgr::auth::messages::{Auth, AuthReply};
pub use onego_msgr::types::{Payload, kind};

pub use log::{Log, LogEntry, LogLevel};
pub use mon::{
    CommandReply, Config, GetMonMap, GetVersion, GetVersionReply, MonCommand, MonMapMessage, Ping, PoolOp,
    PoolOpKind, PoolOpReply, Statfs, StatfsReply, Subscribe, SubscribeAck, Subscription,
};
pub use osd::{Backoff, BackoffOp, MapUpdate, WatchEvent, WatchNotify};
pub use osd_op::{MAX_NAME_LEN, MAX_NAMESPACE_LEN, ObjectName, OpResult, OsdOp, OsdOpReply, Redirect};
pub use pool_stats::{GetPoolStats, GetPoolStatsReply, PoolStat};
pub use service::{Properties, ReportConfig, ServiceClose, ServiceOpen, ServiceReport};
pub use tell::{Tell, TellReply};
