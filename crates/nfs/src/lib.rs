//! NFS version 3 without I/O: the wire protocol, and a client.
//!
//! - [`xdr`] is the encoding (RFC 4506); lengths are checked before memory is allocated.
//! - [`rpc`] has the ONC RPC messages (RFC 5531) and their record marking on streams.
//! - [`v3`] and [`mount`] define the arguments and results of the two programs' procedures (RFC 1813); [`portmap`]
//!   finds their ports.
//! - [`client`] makes calls over connections that may break.
//!
//! # Fronts and payloads
//! A call or a reply consists of a *front* of encoded words and, in the few procedures that move data, a *payload* at
//! the end: the data of READ and WRITE, and the text of symbolic links. The payload is never copied into the front.
//! Over TCP it follows the front in one gathered send; over RDMA it is transferred separately, into memory of the
//! receiver. The receiver locates the payload by [`rpc::Split`] and receives it directly into its destination.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod client;
mod kinds;
pub mod mount;
pub mod portmap;
pub mod rpc;
pub mod v3;
pub mod xdr;

pub use kinds::{KINDS, kind};
