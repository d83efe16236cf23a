//! Integration tests of `onego-nfs-server`.

mod attacks;
mod loopback;
mod nfs;
mod rdma_answers;
mod support;
