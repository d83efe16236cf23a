//! Outgoing messages, for both protocol versions.

pub(crate) mod fronts;
pub(crate) mod outbox;
pub(crate) mod parts;
pub(crate) mod queue;
