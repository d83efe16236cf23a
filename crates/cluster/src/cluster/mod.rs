//! The cluster: on a thread of its own for programs and tests ([`Cluster`]), or as a machine without I/O
//! ([`ClusterMachine`]).

mod backoffs;
mod connections;
mod daemons;
mod disk;
mod fullness;
mod groups;
mod keeping;
mod machine;
mod recovery;
mod requests;
mod server;
mod tell;

pub(crate) use groups::{Groups, follow};
pub(crate) use recovery::Step;

pub use keeping::Keeping;
pub use machine::{Addresses, ClusterMachine};
pub use server::{Cluster, Error, Stats};
