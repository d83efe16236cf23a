//! Moves the bytes of any protocol machine over any event engine.
//!
//! A [`Pump`] drives one [`Machine`](onego_wire::Machine) over one [`Engine`]: it opens and accepts connections,
//! receives straight into the buffers that the machine names, gathers everything the machine has to send into as few
//! system calls as possible, and keeps the machine's deadlines. [`Epoll`] and [`Uepoll`] are readiness
//! engines, [`Uring`] is a completion engine, chosen by name with [`open`]; the test kit has one over a simulated
//! network.

mod any;
mod clock;
pub mod credentials;
mod engine;
mod epoll;
mod file_handle;
mod heap;
mod message;
mod pump;
mod random;
mod readiness;
mod ring;
mod socket;
#[cfg(test)]
mod stress;
mod table;
mod uepoll;
mod uring;
mod waker;
pub mod zero_copy;

pub use any::{AnyEngine, EngineKind, UnknownEngine, open};
pub use clock::{now, thread_cpu};
pub use engine::{Engine, Event, Received, RecvBufs, Sent, Stats, Wait};
pub use epoll::Epoll;
pub use file_handle::FileHandle;
pub use heap::trim_heap;
pub use pump::{BadSpin, Pump, Spin};
pub use random::random_words;
pub use socket::without_pacing;
pub use table::{SocketId, SocketTable};
pub use uepoll::Uepoll;
pub use uring::Uring;
pub use waker::{Sleeper, Waker};
