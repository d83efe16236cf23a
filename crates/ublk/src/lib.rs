//! Userspace block devices (ublk): the part that uses system calls and shared memory.
//!
//! - [`Control`] creates, starts, stops and deletes devices, by commands to `/dev/ublk-control`.
//! - [`Queue`] is the kernel's side of one request queue, by commands to `/dev/ublkcN`. [`onego_export::ublk::Target`]
//!   is the state machine that serves it.
//!
//! Sources of the numbers and layouts: linux `include/uapi/linux/ublk_cmd.h`, `Documentation/block/ublk.rst`.
//!
//! **Memory** crosses the interface by ownership: a buffer belongs to the kernel from the command that names it until
//! that command completes, and nothing else references its bytes meanwhile.

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
