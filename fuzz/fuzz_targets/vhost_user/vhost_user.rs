//! Messages and descriptors of files from a front end, chains of descriptors from its guest, right and wrong, to a server of a disk in
//! memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::vhost_user::{Input, check_floor, run};

fuzz_target!(init: check_floor(), |input: Input<'_>| run(&input));
