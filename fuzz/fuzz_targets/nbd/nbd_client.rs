//! Answers, right and wrong, and any bytes, to a client of NBD whose device has requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::nbd_client::{Input, check_floor, run};

fuzz_target!(init: check_floor(), |input: Input<'_>| run(&input));
