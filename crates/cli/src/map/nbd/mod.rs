//! Block devices of the driver nbd.
//!
//! The kernel's client of NBD gets one end of a pair of sockets, and our server in this process has the other. The driver is told
//! by generic netlink (linux `include/uapi/linux/nbd-netlink.h`, cited as "nbd-netlink.h"; `drivers/block/nbd.c` as "nbd.c").

mod daemon;
mod driver;
mod message;
mod netlink;
mod queue;
mod removal;
mod served;

pub(super) use daemon::run;
pub(crate) use driver::DriverError;
pub(super) use removal::{remove, state};
