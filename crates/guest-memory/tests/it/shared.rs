//! Memory that is shared with another owner, here the test itself by its own mapping of the file.

use onego_guest_memory::{GuestMemory, MapError, MemoryError, Region, Window};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::OwnedFd;

fn file(length: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, length).unwrap();
    file
}

fn region(guest: u64, length: u64) -> Region {
    Region { guest, length, user: guest.wrapping_add(1 << 40) }
}

/// Two regions that follow each other for the guest, in the other order in the file, and one apart.
fn guest() -> GuestMemory {
    let file = file(0x4000);
    let mut memory = GuestMemory::default();
    memory.add(region(0x10000, 0x1000), &file, 0x1000).unwrap();
    memory.add(region(0x11000, 0x1000), &file, 0).unwrap();
    memory.add(region(0x80000, 0x800), &file, 0x2400).unwrap();
    memory
}

#[test]
fn bytes_that_cross_regions_are_copied_whole() {
    let memory = guest();
    let bytes: Vec<u8> = (0..=255).cycle().take(0x1800).collect();
    memory.write(0x10400, &bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    memory.read(0x10400, &mut back).unwrap();
    assert_eq!(back, bytes);
    let window = memory.window_of_user((1 << 40) + 0x11000, 4).unwrap();
    let mut part = [0; 4];
    window.read(0, &mut part);
    assert_eq!(part, bytes[0xc00..0xc04]);
}

#[test]
fn what_the_guest_does_not_have_is_not_touched() {
    let memory = guest();
    for (address, length) in [(0x0, 1), (0xffff, 2), (0x11fff, 2), (0x80700, 0x101), (u64::MAX, 2)] {
        assert!(!memory.contains(address, length as u64));
        let error = memory.read(address, &mut vec![0; length]).unwrap_err();
        assert!(matches!(error, MemoryError::NotThere { .. }), "{error}");
        assert!(memory.write(address, &vec![0; length]).is_err());
    }
    assert!(memory.contains(0x80000, 0x800) && memory.contains(0x10000, 0x2000));
    assert!(memory.window_of_user((1 << 40) + 0x10fff, 2).is_none(), "a window is within one region");
}

#[test]
fn a_region_is_refused_that_its_file_does_not_hold_or_another_has() {
    let mut memory = guest();
    let file = file(0x1000);
    let refused = memory.add(region(0x20000, 0x1001), &file, 0).unwrap_err();
    assert!(matches!(refused, MemoryError::Map(MapError::TooShort { size: 0x1000, .. })), "{refused}");
    assert!(memory.add(region(0x20000, 0x10), &file, u64::MAX).is_err());
    assert!(memory.add(region(0x20000, 0), &file, 0).is_err());
    assert!(matches!(memory.add(region(0x107ff, 1), &file, 0), Err(MemoryError::Overlaps(_))));
    assert!(matches!(memory.add(region(u64::MAX, 2), &file, 0), Err(MemoryError::Wraps(_))));
    memory.remove(region(0x10000, 0x1000)).unwrap();
    assert!(matches!(memory.remove(region(0x10000, 0x1000)), Err(MemoryError::Unknown(_))));
    assert!(!memory.contains(0x10000, 1));
}

#[test]
fn a_file_that_is_mapped_cannot_be_shrunk_any_more() {
    let file = file(0x2000);
    let window = Window::map(&file, 0, 0x2000).unwrap();
    assert!(ftruncate(&file, 0).is_err());
    window.write(0x1fff, &[1]);
    // One that allows no seals is mapped all the same.
    let file = self::file(0x2000);
    fcntl_add_seals(&file, SealFlags::SEAL).unwrap();
    assert!(Window::map(&file, 0, 0x2000).is_ok());
}

#[test]
fn values_are_seen_through_every_window_on_a_file() {
    let (file, ours) = Window::create("shared", 64).unwrap();
    let theirs = Window::map(&file, 2, 62).unwrap();
    ours.store_u16(4, 0x1234);
    assert_eq!(theirs.load_u16(2), 0x1234);
    assert!(theirs.slice(60, 3).is_none() && theirs.slice(u64::MAX, 1).is_none());
    assert!(theirs.slice(60, 2).is_some());
    assert!(ftruncate(&file, 128).is_err(), "it keeps its length");
}

#[test]
fn a_window_outlives_its_region() {
    let mut memory = guest();
    let window = memory.window_of_user((1 << 40) + 0x80000, 0x800).unwrap();
    memory.remove(region(0x80000, 0x800)).unwrap();
    window.store_u16(0, 7);
    assert_eq!(window.load_u16(0), 7);
}

#[test]
#[should_panic(expected = "outside of the window")]
fn a_place_outside_of_a_window_is_a_fault_of_the_program() {
    Window::create("shared", 64).unwrap().1.load_u16(64);
}
