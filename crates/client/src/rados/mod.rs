//! Objects in pools, as librados has them.

mod cluster;
pub(crate) mod pending;
mod pool;
mod watch;

pub use cluster::{Cluster, CommandOutput, PoolInfo, Usage};
pub use onego_ceph::ops::{Compare, CompareWith, Omap, Op};
pub use pool::{ObjectEntry, Objects, OmapPage, Pool, Reply, Stat};
pub use watch::{Watch, WatchEvent};
