//! Calls of all procedures, right and wrong, and any bytes, to a server of NFS over TCP and over RDMA.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::nfs_server::{Item, run};

fuzz_target!(|input: (u8, Vec<Item<'_>>)| run(input.0, &input.1));
