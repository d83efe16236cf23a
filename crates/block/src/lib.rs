//! Block devices without I/O.
//!
//! A [`Request`] is one container: an offset, a list or a place, flags, and its caller. It crosses every layer whole:
//! an export submits it to a [`Device`], a device that wraps another passes it on, and the device at the bottom
//! completes it. No layer splits it into pages.
//!
//! - [`Device`] is the interface that exports serve and callers submit requests to.
//! - [`Completions`] is a caller's queue of completed requests. A request completes exactly once; a dropped one
//!   completes with [`Error::Dropped`].
//! - [`Plug`] is the context of a caller: it merges the requests of one batch up to the device's preferred size.
//! - [`Memory`] and [`Null`] are devices without a layer below them.
//! - [`Counted`], [`Limited`], [`Split`] and [`Faulty`] wrap another device; [`Volatile`] loses unflushed data in a
//!   crash.
//! - [`copy`] copies one device to another.
//! - An [`Export`] is a machine that serves devices to clients, and a [`Backend`] one that executes their requests.
//!
//! Devices, callers and completions belong to one thread, that of their reactor. A process may have any number of
//! reactors, which share nothing.
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
