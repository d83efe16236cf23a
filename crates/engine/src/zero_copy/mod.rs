//! Zero-copy sends: the kernel sends from the caller's memory.
//!
//! Such a send ends twice: when the bytes are *accepted*, as with any send, and when the kernel *releases* the memory,
//! because the device has taken the bytes or the peer has acknowledged them. In between the bytes must not change, so
//! the sender keeps the list here. Upper layers see the second end when the last segment of the list is dropped:
//! `try_into_mut` succeeds, and a pool has its block again.
//!
//! - [`Notifier`]: notification slots. Sends are attached to a slot; flushing it makes one event once the memory of all
//!   of them is free.
//! - [`Tracker`]: releases that `MSG_ZEROCOPY` reports as ranges of a counter of sends.
//! - [`Registry`]: slabs of a pool that a ring has registered.
//! - [`Policy`]: decides whether a send pays, by its size and by the kernel's reports on earlier ones.
//! - [`SocketSender`] and [`RingSender`]: the sends of one socket, by `sendmsg` and by io_uring.
//!
//! The kernel (6.18) refuses to skip the notification of a request (`IOSQE_CQE_SKIP_SUCCESS` is `EINVAL`), so each
//! request posts its own and a slot joins them here. It also refuses `SEND_ZC` of a vector in registered memory
//! (`SENDMSG_ZC` takes it).
pub mod bare;
mod closing;
mod error_queue;
mod notifier;
mod policy;
mod registry;
pub(crate) mod request;
mod ring;
mod settings;
mod socket;
mod stream;
mod thresholds;
mod tracker;

pub(crate) use closing::Closing;
pub(crate) use error_queue::abort;
pub use notifier::{Flush, Freed, Notifier, SlotId};
pub use policy::{Access, Counters, Mode, Policy, Shape, UnknownMode};
pub use registry::Registry;
pub use ring::RingSender;
pub use settings::Settings;
pub use socket::SocketSender;
pub(crate) use stream::Stream;
pub use thresholds::{BadLine, BadThresholds, Thresholds};
pub use tracker::Tracker;
