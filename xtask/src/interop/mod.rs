//! Our programs against real Ceph clusters, and Ceph's programs against ours. Nothing here is skipped: what a
//! scenario needs and cannot have is a failure.

pub(crate) mod attacks;
mod bench;
mod capi;
mod ceph;
mod disk;
mod documents;
mod embedded;
mod export;
mod luks;
mod nfs;
mod package;
mod prometheus;
mod runner;
mod scenarios;
mod steps;

pub(crate) use bench::read_rows;
pub(crate) use runner::{DocsOptions, Options, prepare, run, run_documents};
pub(crate) use steps::ensure_pool;
