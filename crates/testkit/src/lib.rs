//! What tests of whole clients and clusters run on.
#![forbid(unsafe_code)]

mod frames;

pub use frames::{FrameEvent, Frames};
