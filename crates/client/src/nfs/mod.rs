//! Files of an NFS server (version 3, RFC 1813).
//!
//! A [`Mount`] is a file system of a server, a [`File`] reads and writes, and [`Mount::read_dir`] lists. The API is
//! async and independent of the runtime; a program that wants to avoid the second thread drives the client itself
//! with a [`Reactor`].
//!
//! Dropping a future cancels its request. An unsent request is never sent. A sent request that changes something (a
//! write, a creation, a removal) may take effect, possibly even after later requests: NFS cannot revoke requests.
//!
//! ```no_run
//! use onego::nfs::{Config, Mount, SetAttributes};
//!
//! # async fn example() -> Result<(), onego::nfs::Error> {
//! let (config, path) = Config::from_url("nfs://server/export")?;
//! let mount = Mount::connect(&config, &path).await?;
//! let file = mount.create("notes/today", SetAttributes::default(), true).await?;
//! file.write(0, b"hello".to_vec()).await?;
//! file.sync().await?;
//! assert_eq!(file.read(0, 5).await?.to_vec(), b"hello");
//! # Ok(()) }
//! ```

mod config;
mod core;
mod dir;
mod error;
mod escaped;
mod file;
mod found;
mod mount;
mod names;
mod path;
mod rdma;
mod reactor;
mod requests;
mod resolve;
mod stream;

pub use config::Config;
#[cfg(feature = "block")]
pub(crate) use core::Core;
pub use core::{Completed, FileOutcome, FileRequest};
pub use dir::{Dir, DirEntry};
pub use error::Error;
pub use escaped::Escaped;
pub use file::File;
pub use found::Found;
pub use mount::Mount;
pub use onego_nfs::client::{
    Awaited, CallFigures, CallsSnapshot, Error as CallError, Filled, Limits, WaitCause, Waiting,
};
pub use onego_nfs::mount::MountStatus;
pub use onego_nfs::rpc::{AuthSys, Credential};
pub use onego_nfs::v3::{
    Attributes, Device, FileType, FsstatOk, Handle, Node, SetAttributes, SetTime, Stability, Status, Time,
    access,
};
pub use onego_wire::LocalPort;
pub use path::Resolved;
pub use rdma::{RDMA_PORT, Rdma, rdma_devices};
pub use reactor::Reactor;
#[cfg(feature = "block")]
pub(crate) use reactor::Unmounted;
pub use stream::{Reader, Writer};

/// Hook called when an NFS client has waited for two seconds; see [the generic hook](crate::WaitingHook).
pub type WaitingHook = crate::WaitingHook<Waiting>;
