//! Procedures of RPC programs.

use crate::xdr::Body;

/// A procedure of an RPC program.
pub trait Procedure {
    /// RPC program number.
    const PROGRAM: u32;
    /// Program version.
    const VERSION: u32;
    /// Procedure number.
    const NUMBER: u32;
    /// Name in the RFC.
    const NAME: &'static str;
    /// Arguments.
    type Args: Body;
    /// Results.
    type Results: Body;
}

/// Defines a marker type per procedure of the program. `PROGRAM` and `VERSION` must be in scope.
macro_rules! procedures {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $args:ty => $results:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl $crate::rpc::Procedure for $name {
            const PROGRAM: u32 = PROGRAM;
            const VERSION: u32 = VERSION;
            const NUMBER: u32 = $number;
            const NAME: &'static str = stringify!($name);
            type Args = $args;
            type Results = $results;
        }
    )*};
}
pub(crate) use procedures;
