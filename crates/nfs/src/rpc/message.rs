//! The words that messages begin with (RFC 5531, section 9).

/// The version of RPC.
pub(super) const RPC_VERSION: u32 = 2;

/// The second word of a call (`msg_type`).
pub(super) const CALL: u32 = 0;
/// The second word of a reply.
pub(super) const REPLY: u32 = 1;
