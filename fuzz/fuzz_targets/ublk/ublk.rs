//! Descriptors of requests, and any bytes, from the kernel's driver ublk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_block::Geometry;
use onego_export::ublk::{DESCRIPTOR, Descriptor, KernelRequest};

fuzz_target!(|input: ([u8; DESCRIPTOR], u64, u32)| {
    let (bytes, size, max_io) = input;
    let inside = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= size);
    match Descriptor::decode(&bytes).work(&Geometry::new(size), max_io) {
        Ok(KernelRequest::Read { offset, length } | KernelRequest::Write { offset, length, .. }) => {
            assert!(inside(offset, length.into()) && (1..=max_io).contains(&length));
        }
        Ok(KernelRequest::Discard { offset, length } | KernelRequest::Zero { offset, length, .. }) => {
            assert!(inside(offset, length));
        }
        Ok(KernelRequest::Flush) | Err(_) => {}
    }
});
