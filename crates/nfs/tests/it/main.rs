//! Integration tests of `onego-nfs`.

mod cancelled;
mod client;
mod ends;
mod rdma;
mod rdma_recorded;
mod rdma_simulation;
mod rdma_violations;
mod recorded;
mod records;
