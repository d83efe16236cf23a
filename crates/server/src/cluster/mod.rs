//! The cluster: on a thread of its own for programs and tests ([`Cluster`]), or as a machine without I/O
//! ([`ClusterMachine`]).

mod backoffs;
mod daemons;
mod groups;
mod links;
mod machine;
mod recovery;
mod requests;
mod server;

pub use machine::{Addresses, ClusterMachine};
pub use server::{Cluster, Error, Stats};
