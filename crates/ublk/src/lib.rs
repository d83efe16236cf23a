//! Block devices of the kernel that a program serves (ublk): what takes system calls and shared memory.
//!
//! - [`Control`] makes, starts, stops and removes devices, by commands to `/dev/ublk-control`.
//! - [`Queue`] is the kernel's side of one queue of requests, by commands to `/dev/ublkcN`. The machine that serves it is
//!   [`onego_export::ublk::Target`].
//!
//! Source of the numbers and layouts: linux `include/uapi/linux/ublk_cmd.h`, `Documentation/block/ublk.rst`.
//!
//! **Memory** crosses the interface by ownership: a buffer is the kernel's from the command that names it until the
//! completion of that command, and nobody else has a reference to its bytes meanwhile.

mod control;
mod error;
mod info;
mod kernel;
mod queue;
mod task;

pub use control::{Control, NewDevice};
pub use error::Error;
pub use info::{DeviceInfo, DeviceState, Features};
pub use queue::{CharDevice, Queue};
pub use task::serve_block_device;
