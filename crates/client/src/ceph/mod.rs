//! How a Ceph cluster is reached: configuration, identity, errors, and the reactor that drives a client. What is done
//! with the cluster is in [`rados`](crate::rados) and [`rbd`](crate::rbd).

mod conf_file;
mod config;
pub(crate) mod core;
mod credentials;
mod dns;
mod environment;
pub(crate) mod error;
pub(crate) mod reactor;
pub(crate) mod waiting;

pub use config::Config;
pub use core::Outcome;
pub use credentials::{Identity, MsMode};
pub use environment::CephArgs;
pub use error::{Errno, Error};
pub use onego_ceph::client::{Awaited, Error as ProtocolError, Monitor, Waiting};
pub use onego_ceph::types::EntityName;
pub use onego_msgr::addr::{EntityAddr, Versions};
pub use onego_msgr::auth::{AuthName, Credentials};
pub use onego_msgr::{COMPRESSION_SETTINGS, Compression, Method as CompressionMethod};
pub use reactor::{Completed, ImageRequest, Reactor};
pub use waiting::WaitingHook;
