//! Integration tests of `onego-rdma`.

mod exchange;
mod recorded;
mod simulation;
mod support;
mod violations;
