//! RBD images without I/O: state machines on top of the object client.
//!
//! [`OpenImage`] is one open image: it takes its users' requests and emits object requests, watches and notifications to the
//! layer that drives it ([`Host`]). [`notify`] holds the messages that the users of an image exchange.
//!
//! Sources: ceph `src/librbd/`, `src/cls/rbd/`, `doc/dev/rbd-diff.rst`, `doc/dev/rbd-export.rst`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod data;
pub mod diff;
mod encryption;
mod error;
mod facts;
mod flush;
mod header;
mod host;
mod image;
pub mod notify;
mod request;
pub mod stream;

pub use data::{Ancestor, AncestorData, DataObjects, ExternalBytes, ExternalRead};
pub use encryption::{Encryption, Misfit, stripe_period};
pub use error::Error;
pub use facts::{Copied, ImageFacts, ImageState, ImageView, Migration};
pub use host::{Host, Ticket};
pub use image::{LOCK_NAME, LockOwner, LockWait, OpenImage, PauseKind};
pub use request::{Allocated, Io, MAX_IO, Outcome, STATUS_OBJECTS};
