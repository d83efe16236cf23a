//! The port mapper, version 2 (RFC 1833, section 3): program 100000. It tells on which port a program listens.

use crate::rpc::procedures;
use crate::xdr::xdr_struct;

/// The program's number.
pub const PROGRAM: u32 = 100_000;
/// Its version.
pub const VERSION: u32 = 2;
/// The port where it always is.
pub const PORT: u16 = 111;

/// The number of TCP among protocols (`IPPROTO_TCP`).
pub const TCP: u32 = 6;

procedures! {
    /// Does nothing.
    Null = 0: () => ();
    /// Tells the port of a program; 0: it is not there.
    Getport = 3: Mapping => u32;
}

xdr_struct! {
    /// A program that listens somewhere.
    #[derive(Copy)]
    pub struct Mapping {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// Over which protocol (see [`TCP`]).
        pub protocol: u32,
        /// Where; to be ignored in questions.
        pub port: u32,
    }
}
