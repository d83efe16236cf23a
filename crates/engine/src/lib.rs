//! Moves bytes between a protocol machine and an event engine.
//!
//! A [`Pump`] drives one [`Machine`](onego_wire::Machine) over one [`Engine`]. It opens and accepts connections,
//! receives straight into the buffers that the machine names, sends with as few system calls as possible, and keeps the
//! machine's deadlines. [`Epoll`] and [`Uepoll`] are readiness engines, [`Uring`] is a completion engine; [`open`]
//! selects one by kind. The test kit has another over a simulated network.

mod any;
mod descriptors;
mod engine;
mod epoll;
mod message;
mod pump;
mod readiness;
mod ring;
mod socket;
#[cfg(test)]
mod stress;
mod system;
mod table;
mod uepoll;
mod uring;
mod wait;
mod waker;
pub mod zero_copy;

pub use any::{AnyEngine, EngineKind, UnknownEngine, open};
pub use engine::{Engine, Event, Received, RecvBufs, Sent, Stats};
pub use epoll::Epoll;
pub use pump::{BadSpin, Pump, Spin};
pub use socket::without_pacing;
pub use system::clock::{now, thread_cpu};
pub use system::credentials;
pub use system::file_handle::FileHandle;
pub use system::heap::trim_heap;
pub use system::random::random_words;
pub use table::{SocketId, SocketTable};
pub use uepoll::Uepoll;
pub use uring::Uring;
pub use wait::Wait;
pub use waker::{Sleeper, Waker};
