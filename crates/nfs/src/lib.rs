//! NFS version 3 without I/O: what goes over the wire between clients and servers.
//!
//! - [`xdr`] is the encoding (RFC 4506), with lengths that are bounded before memory is taken.
//! - [`rpc`] has the messages of ONC RPC (RFC 5531) and their records on a stream.
//! - [`v3`] and [`mount`] are the programs (RFC 1813), and [`portmap`] tells where they are: the arguments and results of
//!   every procedure.
//! - [`client`] makes calls, over connections that may fail.
//!
//! # One message, two parts
//! A call or a reply is a *front* of encoded words and, in the few procedures that move data, a *payload* that comes
//! last: the data of READ and WRITE, and the text of symbolic links. The payload is never copied into the front. Over
//! TCP it follows the front in one gathered send; over RDMA it goes by itself, into memory of the receiver. The
//! receiver finds the place of the payload by [`rpc::Split`] and has it received where it belongs.
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
