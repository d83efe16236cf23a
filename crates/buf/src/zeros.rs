//! Static zero bytes.

use crate::list::List;
use crate::segment::Segment;
use std::cell::UnsafeCell;

const LENGTH: usize = 256 << 10;

/// Read-only zeros. A plain static would store all these zeros in the program's file, once for each such static. A type
/// with interior mutability is not stored there, and all its pages map the kernel's zero page.
#[repr(align(4096))]
struct Zeros(UnsafeCell<[u8; LENGTH]>);

// SAFETY: it is only read: no mutable reference or writable pointer to it is ever created.
unsafe impl Sync for Zeros {}

static ZEROS: Zeros = Zeros(UnsafeCell::new([0; LENGTH]));

/// Returns 256 KiB of zeros, which take no memory and no space in the program's file.
#[inline]
pub fn zeros() -> &'static [u8; LENGTH] {
    // SAFETY: it lives as long as the program and is never written (see above).
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
    fn a_list_may_have_more_zeros_than_the_static() {
        for length in [0, 1, LENGTH, 3 * LENGTH + 5] {
            let mut list = List::from(vec![7]);
            list.push_zeros(length as u64);
            assert!(list.to_vec() == [vec![7], vec![0; length]].concat());
        }
    }

    #[test]
    fn the_zeros_start_on_a_page_boundary() {
        assert!(zeros().iter().all(|byte| *byte == 0));
        assert!(zeros().as_ptr().addr().is_multiple_of(4096));
    }
}
