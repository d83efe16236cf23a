//! Messages on their way out, as both versions keep them.

pub(crate) mod fronts;
pub(crate) mod outbox;
pub(crate) mod parts;
pub(crate) mod queue;
