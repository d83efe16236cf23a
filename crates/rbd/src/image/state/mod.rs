//! State of pauses, and of operations for other clients.

pub(super) mod pauses;
pub(super) mod under_way;
