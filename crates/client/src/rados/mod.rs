//! Objects in pools, with the functionality of librados.

mod cluster;
mod connect;
mod lock;
mod log;
mod op;
mod outputs;
mod pending;
mod pool;
mod raw;
mod snap_ids;
mod watch;

pub use cluster::{Cluster, CommandOutput, CommandReply, PoolInfo, PoolUsage, Usage};
#[cfg(feature = "block")]
pub(crate) use connect::Unconnected;
pub use connect::{ClientMachine, machine};
pub use lock::{LockHolder, LockInfo, LockKind, LockRequest};
pub use log::ClusterLog;
pub use onego_ceph::client::{ClientFigures, ClientSnapshot};
pub use onego_ceph::messages::{LogEntry, LogLevel};
pub use onego_ceph::ops::{Compare, CompareWith, Omap};
pub use op::{Output, ReadOp, ReadReply, WriteOp};
pub use outputs::{OmapPage, Stat, Watcher};
pub(crate) use pool::WeakPool;
pub use pool::{ObjectEntry, Pool};
pub use raw::MonitorInfo;
pub use watch::{Acknowledgement, Notification, Notified, Unanswered, Watch, WatchEvent, WatchMonitor};

/// Methods of object classes: code that an OSD runs next to an object. A method's argument type implements
/// [`Method`](class::Method); pass it to [`Pool::call`], [`ReadOp::call`] or [`WriteOp::call`].
pub mod class {
    pub use onego_ceph::cls::Method;
    pub use onego_msgr::encoding::{Decode, Encode};
    pub use onego_wire::{DecodeError, Decoded, Reader, Writer};
}
