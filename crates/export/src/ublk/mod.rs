//! Block devices of the kernel, served by this process (ublk).
//!
//! Comments cite linux `include/uapi/linux/ublk_cmd.h` as "ublk_cmd.h", `Documentation/block/ublk.rst` as "ublk.rst", and
//! `drivers/block/ublk_drv.c` as "ublk_drv.c".
//!
//! - [`Target`] is the machine: it serves one queue of a device, and several of them, each on a reactor of its own, serve the
//!   device.
//! - [`KernelQueue`] is what the kernel gives it; crate `onego-ublk` has the real one.
//! - [`Descriptor`] is what a request asks for, [`Params`] describes the device to the kernel.

mod descriptor;
mod errno;
mod kernel_queue;
mod params;
mod target;

pub use descriptor::{DESCRIPTOR, Descriptor, KernelRequest, Refusal};
pub use kernel_queue::{Fetched, KernelQueue};
pub use params::{PARAMS, Params, ParamsError};
pub use target::Target;
