//! Virtual time and a virtual network with seeded faults, for whole clients and clusters in one thread; a pipe and a driver
//! for one server in memory; and a small protocol to test engines with.
#![forbid(unsafe_code)]

mod driven_server;
mod eventfds;
mod faults;
mod frames;
pub mod loopback;
mod needs;
mod network;
mod pipe;
pub mod seeds;
mod sim;
mod sim_engine;
mod trace;

pub use driven_server::{DrivenServer, START, Who};
pub use eventfds::{signal, take_signals};
pub use faults::Faults;
pub use frames::{FrameEvent, Frames};
pub use needs::{Need, NeedyTest};
#[cfg(feature = "harness")]
pub use needs::{run_needy, run_needy_in_turn};
pub use pipe::{Delivered, Delivery, Pipe};
pub use sim::{Node, Sim};
pub use sim_engine::SimEngine;
