//! Clients for network storage in userspace: objects in pools of a Ceph cluster ([`rados`]), block devices ([`rbd`]), and
//! files of an NFS server ([`nfs`]).
//!
//! The API is async and needs no runtime in particular: a thread of the library's own moves the bytes, and the
//! futures work on any executor. Who would rather spend no second thread drives the client himself: see [`Reactor`].
//!
//! Data goes in as [`List`]s of owned, reference-counted memory (a `Vec<u8>` is one), and comes out as lists of what
//! was received or in the caller's own buffer. Nothing on the way copies it to pass it on.
//!
//! ```no_run
//! use onego::{Config, rados::Cluster, rbd};
//!
//! # async fn example() -> Result<(), onego::Error> {
//! let cluster = Cluster::connect(&Config::from_file("/etc/ceph/ceph.conf")?).await?;
//! let pool = cluster.pool("rbd").await?;
//! rbd::create(&pool, "disk", &rbd::CreateOptions::new(1 << 30)).await?;
//!
//! let disk = rbd::Image::open(&pool, "disk").await?;
//! disk.write(0, b"hello".to_vec()).await?;
//! assert_eq!(disk.read(0, 5).await?.to_vec(), b"hello");
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod conf_file;
mod config;
mod core;
mod credentials;
mod dns;
mod driver;
mod environment;
mod error;
mod mailbox;
pub mod nfs;
pub mod rados;
pub mod rbd;
mod reactor;
mod waiting;

pub use crate::core::Outcome;
pub use config::Config;
pub use credentials::{Identity, MsMode};
pub use environment::CephArgs;
pub use error::{Errno, Error};
pub use onego_buf::{List, Segment, SegmentMut};
pub use onego_ceph::addr::Versions;
pub use onego_ceph::auth::{AuthName, Credentials};
pub use onego_ceph::client::{Awaited, Monitor, Waiting};
pub use onego_ceph::msgr::{COMPRESSION_SETTINGS, Compression, Method};
pub use onego_engine::{EngineKind, Spin, Stats, Wait, zero_copy};
pub use reactor::{Completed, ImageRequest, Reactor};
pub use waiting::WaitingHook;
