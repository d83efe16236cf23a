//! Foundations of all protocols: the [`Machine`] trait, bounded codecs, and time.
//!
//! A protocol is a state machine without I/O. Bytes go in ([`Machine::received`], [`Machine::landed`]), bytes come out
//! ([`Machine::transmit`]), requests are polled ([`Machine::next_action`]), and time is an argument. A pump moves the
//! bytes over an event engine or a simulated network; the machine cannot tell which.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod backoff;
mod codec;
mod conns;
mod joined;
mod layer;
mod machine;
mod no_connections;
mod part;
mod pieces;
mod place;
mod share;
pub mod text;
mod time;
mod unfinished;

pub use backoff::Backoff;
pub use codec::{DecodeError, Decoded, Reader, Writer};
pub use conns::{ConnId, ConnTable};
pub use joined::{Joined, Members};
pub use layer::Layer;
pub use machine::{Action, Disconnect, Landing, ListenerId, LocalPort, Machine};
pub use no_connections::NoConnections;
pub use part::Part;
pub use pieces::Pieces;
pub use place::{AHEAD, AHEAD_OF_BULK, Ahead, BULK, Place};
pub use share::first_share;
pub use time::Time;
pub use unfinished::Unfinished;
