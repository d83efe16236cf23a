//! Virtual time and a virtual network with seeded faults, for whole clients and clusters in one thread; and a small
//! protocol to test engines with.
#![forbid(unsafe_code)]

mod faults;
mod frames;
pub mod loopback;
mod network;
pub mod seeds;
mod sim;
mod sim_engine;
mod trace;

pub use faults::Faults;
pub use frames::{FrameEvent, Frames};
pub use sim::{Node, Sim};
pub use sim_engine::SimEngine;
