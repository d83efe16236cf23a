//! The cluster: on a thread of its own for programs and tests ([`Cluster`]), or as a machine without I/O
//! ([`ClusterMachine`]).

mod backoffs;
mod connections;
mod daemons;
mod disk;
mod figures;
mod fullness;
mod keeping;
mod machine;
mod notes;
mod osd_daemon;
mod pg_query;
mod recovery;
mod requests;
mod room;
mod server;
mod store_bench;
mod tell;
mod trimming;

pub use daemons::Addresses;
pub use figures::{Figures, Stats};
pub use machine::ClusterMachine;
pub use notes::Keeping;
pub use server::{Cluster, Error};
