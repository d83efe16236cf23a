//! The first words of messages (RFC 5531, section 9).

pub(super) const RPC_VERSION: u32 = 2;

/// Message type of a call (`msg_type`).
pub(super) const CALL: u32 = 0;
pub(super) const REPLY: u32 = 1;
