//! Userspace clients for network storage: objects in pools of a Ceph cluster ([`rados`]), block devices ([`rbd`]) and
//! files on an NFS server ([`nfs`]). The module [`ceph`] configures the connection to a cluster.
//!
//! The API is async and independent of the runtime: a thread of the library moves the bytes, and the futures run on
//! any executor. A program that wants to avoid the second thread drives the client itself with a [`Reactor`].
//! Dropping a future cancels its request: an unsent request is never sent, and the reply to a sent one is discarded.
//! The server may still apply a request that was already sent.
//!
//! Data goes in as [`List`]s of owned, reference-counted memory (a `Vec<u8>` converts into one), and comes out as
//! lists of receive buffers or in the caller's own buffer. No layer in between copies it.
//!
//! ```no_run
//! use onego::{ceph, rados, rbd};
//!
//! # async fn example() -> Result<(), ceph::Error> {
//! let config = ceph::Config::from_file("/etc/ceph/ceph.conf")?;
//! let cluster = rados::Cluster::connect(&config).await?;
//! let pool = cluster.pool("rbd").await?;
//! rbd::create(&pool, "disk", &rbd::CreateOptions::new(1 << 30)).await?;
//!
//! let disk = rbd::Image::open(&pool, "disk").await?;
//! disk.write(0, b"hello".to_vec()).await?;
//! assert_eq!(disk.read(0, 5).await?.to_vec(), b"hello");
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! `ceph` ([`ceph`], [`rados`], [`rbd`]), `nfs` ([`nfs`]) and `block` ([`block`]) are enabled by default. `ceph` and
//! `nfs` are independent of each other; `block` requires both. `rdma-core` adds RDMA over the machine's devices to
//! `nfs`.
#![forbid(unsafe_code)]

#[cfg(feature = "block")]
pub mod block;
#[cfg(feature = "ceph")]
pub mod ceph;
mod driver;
#[cfg(feature = "ceph")]
mod encryption_error;
mod error_kind;
mod listing;
mod mailbox;
#[cfg(feature = "nfs")]
pub mod nfs;
mod pending;
#[cfg(feature = "ceph")]
pub mod rados;
#[cfg(feature = "ceph")]
pub mod rbd;
mod reactor;
mod waiting;

pub use error_kind::ErrorKind;
pub use listing::Listing;
pub use onego_buf::{List, Segment, SegmentMut};
pub use onego_engine::{EngineKind, Spin, Stats, Wait, Waker, zero_copy};
pub use onego_metrics::{HistogramSnapshot, KindSnapshot, OperationsSnapshot};
pub use onego_wire::text;
pub use reactor::Reactor;
pub use waiting::WaitingHook;
