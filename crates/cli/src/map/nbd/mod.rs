//! Block devices of the driver nbd.
//!
//! The kernel's client of NBD gets one end of a pair of sockets, and our server in this process has the other.

mod daemon;
mod queue;
mod removal;
mod served;

pub(super) use daemon::run;
pub(super) use removal::{remove, state};
