//! Block devices without I/O.
//!
//! A [`Request`] is one container: an offset, a list or a place, flags, and its caller. It crosses every layer whole: an
//! export submits it to a [`Device`], a device that wraps another passes it on, and the device at the bottom completes it.
//! Nothing on the way cuts it to pages.
//!
//! - [`Device`] is what exports serve and what callers submit requests to.
//! - [`Completions`] is a caller's queue of completed requests. A request completes exactly once; one that is dropped
//!   completes with [`Error::Dropped`].
//! - [`Plug`] is the context of a caller: it merges the requests of one batch into the largest that the device likes.
//! - [`Memory`] and [`Null`] are devices without anything below them.
//! - [`Counted`], [`Limited`], [`Split`] and [`Faulty`] wrap another device; [`Volatile`] forgets in a crash what was not flushed.
//! - [`copy`] copies one device to another.
//! - An [`Export`] is a machine that serves devices to clients, and a [`Backend`] one that carries their requests out.
//!
//! Devices, callers and completions belong to one thread, that of their reactor. A process has as many reactors as it
//! likes, and they share nothing.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod backend;
mod caller;
pub mod copy;
mod device;
mod error;
mod export;
mod geometry;
mod memory;
mod null;
mod outcome;
mod plug;
mod request;
mod status;
mod wrappers;

pub use backend::Backend;
pub use caller::{Caller, Completion, Completions};
pub use device::Device;
pub use error::Error;
pub use export::Export;
pub use geometry::{Geometry, PartialBlock};
pub use memory::Memory;
pub use null::{Null, zeros};
pub use outcome::Outcome;
pub use plug::Plug;
pub use request::{Flags, Op, Request};
pub use status::{BlockStatus, StatusExtent};
pub use wrappers::{Counted, Counters, Faults, Faulty, Limit, Limited, Rate, Split, Volatile};
