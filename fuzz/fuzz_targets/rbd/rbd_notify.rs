//! What the users of an image tell each other, and how they answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::round_trip;
use onego_rbd::notify::{Notification, Response};

fuzz_target!(|bytes: &[u8]| {
    round_trip::<Notification>(bytes);
    round_trip::<Response>(bytes);
});
