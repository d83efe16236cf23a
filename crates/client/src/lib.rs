//! Clients for network storage in userspace: objects in pools of a Ceph cluster ([`rados`]), block devices ([`rbd`]), and
//! files of an NFS server ([`nfs`]). How a cluster is reached is in [`ceph`].
//!
//! The API is async and needs no runtime in particular: a thread of the library's own moves the bytes, and the
//! futures work on any executor. A program that would rather spend no second thread drives the client itself: see
//! [`Reactor`]. Dropping a future cancels what it began: a request that was not sent is never sent, and the reply to one
//! that was sent is dropped. What such a request was to change may have changed, or may change yet.
//!
//! Data goes in as [`List`]s of owned, reference-counted memory (a `Vec<u8>` is one), and comes out as lists of what
//! was received or in the caller's own buffer. Nothing on the way copies it to pass it on.
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
//! `ceph` ([`ceph`], [`rados`], [`rbd`]) and `nfs` ([`nfs`]) are on unless they are switched off; each works alone. So is `block`
//! ([`block`]), which needs both.
//! `rdma-core` adds RDMA by devices of the machine to `nfs`.
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
