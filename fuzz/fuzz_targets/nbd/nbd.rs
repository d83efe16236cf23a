//! Options and requests, right and wrong, and any bytes, to a server of NBD that serves memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::nbd::{Input, check_floor, run};

fuzz_target!(init: check_floor(), |input: Input<'_>| run(&input));
