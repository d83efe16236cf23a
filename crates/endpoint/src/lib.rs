//! HTTP endpoint for a process's metrics and health.
//!
//! - [`Endpoint`] serves `/metrics`, `/healthz` and `/readyz` on its own thread.
//! - [`EndpointMachine`] is its sans-I/O state machine.
//! - [`Health`] holds the readiness of the process.
//! - [`ProcessFigures`] are generic process metrics: CPU time by thread, memory, file descriptors.
//!
//! The endpoint is meant for operators and monitoring, not for users: it serves few connections at a time, each for a
//! single short request with a deadline of seconds, regardless of its peers' behavior. Everything is readable by anyone
//! who can reach the address.
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
