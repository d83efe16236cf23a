//! Limits of a connection.

/// Maximum length of private data in bytes: that of a RoCE request.
pub const PRIVATE_DATA_MAX: usize = 56;

/// Limits of a connection; the device may allow less.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Limit on posted sends, RDMA Writes and RDMA Reads, including their unpolled completions.
    pub send_queue: u32,
    /// Limit on posted receives, including their unpolled completions.
    pub receive_queue: u32,
}

impl Default for Config {
    /// Returns limits for NFS with 128 calls in flight.
    fn default() -> Self {
        Self { send_queue: 512, receive_queue: 256 }
    }
}
