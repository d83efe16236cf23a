//! How the program is named.

/// The program's number.
pub const PROGRAM: u32 = 100_003;
/// Its version.
pub const VERSION: u32 = 3;
/// The port where servers are by convention.
pub const PORT: u16 = 2049;
