//! What a program can do.

use crate::xdr::Body;

/// A procedure of a program.
pub trait Procedure {
    /// The program.
    const PROGRAM: u32;
    /// The program's version.
    const VERSION: u32;
    /// Its number.
    const NUMBER: u32;
    /// Its name, as the RFC has it.
    const NAME: &'static str;
    /// What it is called with.
    type Args: Body;
    /// What it returns.
    type Results: Body;
}

/// Types that name procedures of the program `PROGRAM` in its version `VERSION`, which are in scope: their numbers,
/// their arguments and their results.
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
