//! Numbers of the program.

/// RPC program number.
pub const PROGRAM: u32 = 100_003;
/// Program version.
pub const VERSION: u32 = 3;
/// Conventional port.
pub const PORT: u16 = 2049;
