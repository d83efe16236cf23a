//! Block devices of the driver ublk.

mod daemon;
mod queue;
mod removal;
mod served;

pub(super) use daemon::run;
pub(super) use removal::remove;
