/// What a server has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Connections that came.
    pub accepted: u64,
    /// Connections that were refused because there were too many.
    pub refused: u64,
    /// Connections that were closed because their clients broke the protocol, or were too slow.
    pub given_up: u64,
    /// Requests that came, with those that were refused.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes that were read for clients.
    pub read: u64,
    /// Bytes that clients have written.
    pub written: u64,
}
