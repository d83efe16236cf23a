//! Sends that the kernel makes from the caller's memory.
//!
//! Such a send ends twice: when the bytes were *accepted*, as any send does, and when the kernel has *let go* of the
//! memory, because the device has taken it or the peer has acknowledged it. In between the bytes must not change. So
//! the sender keeps the list here. Upper layers see the second end when the last segment of the list is dropped:
//! `try_into_mut` succeeds, and a pool has its block again.
//!
//! - [`Notifier`]: notification slots. Sends are attached to a slot; flushing it makes one event once the memory of
//!   all of them is free.
//! - [`Tracker`]: what `MSG_ZEROCOPY` says of that, as ranges of a counter of sends.
//! - [`Registry`]: which slabs of a pool a ring has registered.
//! - [`Policy`]: whether a send is worth it, by its size and by what the kernel reported of earlier ones.
//! - [`SocketSender`] and [`RingSender`]: the sends of one socket, by `sendmsg` and by io_uring.
//!
//! What the kernel (6.18) refuses: to skip the notification of a request (`IOSQE_CQE_SKIP_SUCCESS` is `EINVAL`), so
//! each request posts its own and a slot joins them here; `SEND_ZC` of a vector in registered memory (`SENDMSG_ZC` takes it).
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
