//! The kernel's driver of NBD: its client makes block devices of sockets, and is told so by generic netlink.
//!
//! Comments cite linux `include/uapi/linux/nbd-netlink.h` as "nbd-netlink.h", and `drivers/block/nbd.c` as "nbd.c".

mod driver;
mod message;
mod netlink;

pub(crate) use driver::{Driver, DriverError, NewDevice, block_size, is_connected};
