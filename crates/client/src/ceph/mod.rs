//! Connection to a Ceph cluster: configuration, identity, errors, and the reactor that drives a client. Operations on
//! the cluster are in [`rados`](crate::rados) and [`rbd`](crate::rbd).

pub(crate) mod commands;
pub(crate) mod config;
pub(crate) mod core;
pub(crate) mod done;
pub(crate) mod error;
pub(crate) mod image_key;
mod images;
mod log;
mod operations;
pub(crate) mod operator;
pub(crate) mod reactor;
pub(crate) mod source_files;
mod tickets;

pub use config::{CephArgs, Config, Identity, ImageDefaults, MsMode, Settings, TurnHook};
pub use done::Completed;
pub use error::{Errno, Error};
pub use onego_ceph::client::{Awaited, Error as ProtocolError, Monitor, Waiting};
pub use onego_ceph::types::EntityName;
pub use onego_msgr::addr::{EntityAddr, Versions};
pub use onego_msgr::auth::{AuthName, Credentials};
pub use onego_msgr::{COMPRESSION_SETTINGS, Compression, Method as CompressionMethod};
pub use onego_rbd::{Allocated, Outcome};
pub use reactor::{ImageRequest, Reactor};

/// Hook called when a client of a cluster has waited for two seconds; see [the generic hook](crate::WaitingHook).
pub type WaitingHook = crate::WaitingHook<Waiting>;
