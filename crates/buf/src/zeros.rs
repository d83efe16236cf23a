//! Bytes that are zero.

use crate::list::List;
use crate::segment::Segment;
use std::cell::UnsafeCell;

/// How many there are.
const LENGTH: usize = 256 << 10;

/// Memory that nobody writes to. Were it a plain static, a program's file would have all these zeros in it, once for each such
/// static; what may have interior mutability is left out there, and all its pages are the kernel's one page of zeros.
#[repr(align(4096))]
struct Zeros(UnsafeCell<[u8; LENGTH]>);

// SAFETY: it is read alone: nothing makes a mutable reference, or a pointer to write by, of it.
unsafe impl Sync for Zeros {}

static ZEROS: Zeros = Zeros(UnsafeCell::new([0; LENGTH]));

/// 256 KiB of zeros, which take no memory and no place in the program's file.
#[inline]
pub fn zeros() -> &'static [u8; LENGTH] {
    // SAFETY: it lives as long as the program, and nobody writes to it (above).
    unsafe { &*ZEROS.0.get() }
}

impl List {
    /// Appends zeros, which take no memory of their own.
    pub fn push_zeros(&mut self, mut length: u64) {
        while length > 0 {
            let part = length.min(LENGTH as u64);
            self.push(Segment::from_static(&zeros()[..part as usize]));
            length -= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_have_more_zeros_than_there_are() {
        for length in [0, 1, LENGTH, 3 * LENGTH + 5] {
            let mut list = List::from(vec![7]);
            list.push_zeros(length as u64);
            assert!(list.to_vec() == [vec![7], vec![0; length]].concat());
        }
    }

    #[test]
    fn they_are_zeros_on_a_page_boundary() {
        assert!(zeros().iter().all(|byte| *byte == 0));
        assert!(zeros().as_ptr().addr().is_multiple_of(4096));
    }
}
