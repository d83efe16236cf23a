//! The port mapper, version 2 (RFC 1833, section 3): program 100000. It maps programs to their ports.

use crate::rpc::procedures;
use crate::xdr::xdr_struct;

/// RPC program number.
pub const PROGRAM: u32 = 100_000;
/// Program version.
pub const VERSION: u32 = 2;
/// Well-known port.
pub const PORT: u16 = 111;

/// Protocol number of TCP (`IPPROTO_TCP`).
pub const TCP: u32 = 6;

procedures! {
    /// Does nothing.
    Null = 0: () => ();
    /// Returns the port of a program; 0 if it is not registered.
    Getport = 3: Mapping => u32;
}

xdr_struct! {
    /// A program's registration.
    #[derive(Copy)]
    pub struct Mapping {
        /// RPC program number.
        pub program: u32,
        /// Program version.
        pub version: u32,
        /// Protocol number (see [`TCP`]).
        pub protocol: u32,
        /// Port; ignored in requests.
        pub port: u32,
    }
}
