//! Requests and commands, right and wrong, messages of all kinds, and any bytes, to an embedded cluster.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::cluster::{Item, run};

fuzz_target!(|items: Vec<Item<'_>>| run(&items));
