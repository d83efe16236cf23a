//! Calls of all procedures, right and wrong, and any bytes, to a server of NFS in memory over TCP and over RDMA.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::nfs_server::{InMemory, Item, check_floor, run};

fuzz_target!(
    init: check_floor::<InMemory>(),
    |input: (u8, Vec<Item<'_>>)| run::<InMemory>(input.0, &input.1)
);
