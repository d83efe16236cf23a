//! Workloads, tables and pictures.
//!
//! A figure is meaningful compared with another one of the same run: every measurement has the CPU time of both ends
//! next to its throughput, and bare sockets that move the same bytes for comparison ([`floor`]).
#![forbid(unsafe_code)]

pub mod block;
pub mod cpu;
pub mod embedded;
mod error;
pub mod floor;
mod in_flight;
mod jobs;
pub mod load;
pub mod msgr;
pub mod nfs;
pub mod pattern;
pub mod peer;
pub mod rbd;
pub mod report;
pub mod row;
pub mod zc;

pub use error::Error;
