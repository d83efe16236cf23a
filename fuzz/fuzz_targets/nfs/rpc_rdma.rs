//! Messages and chunk lists of any kind, for the server's end and for the client's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::rpc_rdma::{Item, call, serve};

fuzz_target!(|items: (bool, Vec<Item<'_>>)| match items {
    (true, items) => serve(&items),
    (false, items) => call(&items),
});
