//! A server of NFS version 3: one file system, exported by NFS and MOUNT on one port, and by NFS over RDMA on another.
//!
//! - A [`FileSystem`] carries procedures out: [`Memory`], or a [`Directory`] of this machine. Both are backends of the same
//!   policy (`procedures`).
//! - Dispatch (`program`, `call`) takes calls and gives replies, and does not know the transport. Replies to calls that
//!   must not be carried out twice are kept (`duplicate_request_cache`).
//! - [`ServerMachine`] has the listeners and the connections (`connections`) and bounds what they make it hold.
//! - [`Server`] drives it on a thread of its own, and has calls to a directory carried out on others (`workers`).

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "answers have attributes whether they are errors or not")]

mod call;
mod caller;
mod connections;
mod directory;
mod duplicate_request_cache;
mod export;
mod figures;
mod file_system;
mod job;
mod machine;
mod memory;
mod operations;
mod procedures;
mod program;
mod server;
mod transport;
mod workers;

pub use caller::{Caller, NOBODY};
pub use directory::Directory;
pub use export::{Export, Network, NoNetwork, Squash};
pub use figures::{Figures, Stats};
pub use file_system::{Context, FileSystem, Results};
pub use job::{Done, Job};
pub use machine::ServerMachine;
pub use memory::{Limits, Memory};
pub use onego_service::ServiceError;
pub use server::{Config, Error, Server, Source};
pub use transport::Rdma;
