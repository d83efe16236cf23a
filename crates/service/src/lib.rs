//! What all servers stand on: the embedded Ceph cluster, the server of NFS, and exports of block devices.
//!
//! - [`admission`] bounds what clients may hold of a server: connections, memory of messages, memory of replies.
//! - [`connections`] is the table of a server's connections.
//! - [`Executor`] carries out operations that block, on threads of its own.
//! - [`Service`] runs a machine on a thread of its own.
//! - [`private_file`] writes and reads files with secrets.
//! - [`SharedSync`] lets callers share the syncs of a file.
//! - [`Trimmer`] gives memory back to the system.
#![forbid(unsafe_code)]

pub mod admission;
pub mod connections;
mod executor;
pub mod private_file;
mod sync;
mod thread;
mod trim;

pub use executor::{Executor, Jobs, Outcomes};
pub use sync::{SharedSync, SyncExtent};
pub use thread::{Pumped, Service, ServiceError, descriptors};
pub use trim::Trimmer;
