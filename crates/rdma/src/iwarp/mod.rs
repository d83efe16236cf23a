//! iWARP in software: MPA, DDP and RDMAP over a byte stream, as a state machine without I/O.

#![expect(dead_code, reason = "the connection that uses the codecs comes next")]

mod config;
mod error;
mod header;
mod mpa;
mod violation;

pub use config::Config;
pub use error::{Blame, Error};
pub use mpa::ReadyToReceive;
pub use violation::{Code, Violation};
