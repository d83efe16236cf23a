//! The bounds of a connection.

/// Bytes of private data: what RoCE has room for in a request.
pub const PRIVATE_DATA_MAX: usize = 56;

/// Bounds of a connection, as far as the device allows them.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Sends, RDMA Writes and RDMA Reads that may be posted, with their completions.
    pub send_queue: u32,
    /// Receives that may be posted, with their completions.
    pub receive_queue: u32,
}

impl Default for Config {
    /// What suits NFS with 128 calls under way.
    fn default() -> Self {
        Self { send_queue: 512, receive_queue: 256 }
    }
}
