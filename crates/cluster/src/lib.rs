//! An embedded Ceph cluster: one monitor, one manager and in-memory OSDs in a process.
#![forbid(unsafe_code)]

mod auth;
mod cluster;
mod config;
mod errno;
mod groups;
pub mod journal;
mod mon;
pub mod osd;
mod version;

pub use auth::{Cephx, KEYRING};
pub use cluster::{Addresses, Cluster, ClusterMachine, Error, Figures, Keeping, Stats};
pub use config::{Config, MAX_OSDS, OsdSettings, Settings};
pub use mon::{NewPool, OsdUsage, Usage};
pub use onego_msgr::auth::Lifetimes;
pub use onego_msgr::{Compression, Method};
pub use onego_service::ServiceError;
