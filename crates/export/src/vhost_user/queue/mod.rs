//! Split virtqueues (virtio 2.7).

mod chain;
mod record;
mod ring;

pub use super::error::QueueError;
pub use chain::{Chain, Span};
pub(super) use record::{QueueRecord, Record};
pub use ring::SplitRing;
