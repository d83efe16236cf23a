//! Metrics and health of a process over HTTP.
//!
//! - [`Endpoint`] serves `/metrics`, `/healthz` and `/readyz` on a thread of its own.
//! - [`EndpointMachine`] is the same without thread, socket and clock.
//! - [`Health`] says whether the process is ready.
//! - [`ProcessFigures`] are those that every process has: time of processors by thread, memory, descriptors.
//!
//! It serves people and programs that look at the process, not its users: few connections at a time, each for one short request
//! and within seconds, whatever their peers do. Everybody who reaches the address reads everything.
#![forbid(unsafe_code)]

mod health;
mod machine;
mod pages;
mod process;
mod reply;
mod request;
mod server;

pub use health::{Health, Readiness};
pub use machine::EndpointMachine;
pub use pages::Pages;
pub use process::ProcessFigures;
pub use server::{Endpoint, EndpointError};
