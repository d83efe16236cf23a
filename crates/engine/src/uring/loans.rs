//! Receive memory shared by all waiting connections.
//!
//! A ring of a few large buffers is lent to the kernel, which fills them from the front with the receives of all
//! connections (`IOU_PBUF_RING_INC`, Linux 6.12). A waiting connection holds none of it.
use io_uring::types::BufRingEntry;
use io_uring::{Submitter, cqueue};
use onego_buf::{Pool, SegmentMut};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

pub(super) const GROUP: u16 = 0;

/// Buffers in the ring, a power of two: enough that the first is seldom used up before it is replaced, few enough that
/// their memory stays in the cache.
const BUFFERS: u16 = 4;

/// Size of a buffer in bytes: a deep queue of small messages arrives in one receive.
pub(super) const BUFFER: usize = 256 << 10;

/// Memory kept for reuse when the messages in it are released.
const IDLE_LIMIT: usize = 16 << 20;

/// Size of the ring itself in bytes: less than the page that the kernel requires.
const RING: usize = 4096;

/// `IOU_PBUF_RING_INC`, which the bindings do not export.
const INCREMENTAL: u16 = 2;

pub(super) struct Loans {
    pool: Pool,
    /// `BUFFERS` entries; the tail is in a field of the first.
    ring: NonNull<BufRingEntry>,
    tail: u16,
    loans: [Loan; BUFFERS as usize],
}

/// Rest of a buffer. The kernel may write to it at any time, so there must be no reference to its bytes, not even to
/// ask for their length.
struct Loan {
    rest: SegmentMut,
    len: usize,
}

// SAFETY: this value owns the ring, whichever thread it is on.
unsafe impl Send for Loans {}

impl Loans {
    pub(super) fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        // SAFETY: fresh memory at an address that the kernel chooses.
        let ring = unsafe {
            mmap_anonymous(std::ptr::null_mut(), RING, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let ring = NonNull::new(ring.cast()).expect("a mapping is not at address 0");
        let pool = Pool::new(IDLE_LIMIT);
        let fresh = || Loan { rest: pool.get(BUFFER), len: BUFFER };
        let mut loans = Self { loans: std::array::from_fn(|_| fresh()), pool, ring, tail: 0 };
        // SAFETY: the mapping is as long as the ring requires, and outlives the registration: see `drop`.
        unsafe { submitter.register_buf_ring_with_flags(ring.as_ptr() as u64, BUFFERS, GROUP, INCREMENTAL)? };
        for number in 0..BUFFERS {
            loans.lend(number);
        }
        Ok(loans)
    }

    /// Lends a buffer to the kernel, which must not have it.
    fn lend(&mut self, number: u16) {
        let Loan { rest, len } = &mut self.loans[usize::from(number)];
        let (addr, len) = (rest.as_mut_ptr() as u64, *len as u32);
        // SAFETY: within the mapping.
        let mut entry = unsafe { self.ring.add(usize::from(self.tail % BUFFERS)) };
        // SAFETY: an all-zero ring has valid entries, and the kernel does not read past the tail.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(addr);
        entry.set_len(len);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the address of the first entry.
        let tail = unsafe { BufRingEntry::tail(self.ring.as_ptr()) };
        // SAFETY: the tail is aligned, lives as long as the mapping, and is shared only with the kernel, which reads it
        // atomically.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Takes the `n` bytes that a receive has filled.
    ///
    /// A completion without `IORING_CQE_F_BUF_MORE` returns the buffer, except after a receive of zero bytes: that
    /// takes nothing from the buffer, so the next receive fills it, though kernels up to 6.19 do not set the flag.
    /// Lending another buffer then would free this one while the kernel has it, and put more entries into the ring than
    /// it holds.
    pub(super) fn take(&mut self, flags: u32, n: usize) -> Option<SegmentMut> {
        let number = cqueue::buffer_select(flags)?;
        let loan = self.loans.get_mut(usize::from(number))?;
        if n == 0 || n > loan.len {
            return None;
        }
        // The filled part is ours; the kernel owns the rest.
        let bytes = loan.rest.split_to(n);
        loan.len -= n;
        if !cqueue::buffer_more(flags) {
            *loan = Loan { rest: self.pool.get(BUFFER), len: BUFFER };
            self.lend(number);
        }
        Some(bytes)
    }
}

impl Drop for Loans {
    /// By now the kernel has completed all receives, or the engine has leaked this value.
    fn drop(&mut self) {
        // SAFETY: there is no reference into it, and the kernel holds its own reference to the pages.
        let result = unsafe { munmap(self.ring.as_ptr().cast(), RING) };
        debug_assert!(result.is_ok(), "a mapping of ours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F_BUFFER: u32 = 1;
    const F_BUF_MORE: u32 = 1 << 4;

    fn flags(number: u16, more: bool) -> u32 {
        F_BUFFER | if more { F_BUF_MORE } else { 0 } | u32::from(number) << 16
    }

    #[test]
    fn a_zero_length_receive_takes_no_buffer() {
        let ring = io_uring::IoUring::new(2).unwrap();
        let mut loans = Loans::new(&ring.submitter()).unwrap();
        // The kernel continues to fill the buffer, also at the end of a stream, where it does not set the flag.
        assert_eq!(loans.take(flags(0, true), 10).unwrap().len(), 10);
        for _ in 0..5 {
            assert!(loans.take(flags(0, false), 0).is_none_or(|bytes| bytes.is_empty()));
        }
        assert_eq!(loans.tail, BUFFERS, "the ring is full, and stays so");
        // The kernel still owns the rest of it, in the same place.
        let first = loans.take(flags(0, true), 10).unwrap();
        let second = loans.take(flags(0, true), 10).unwrap();
        assert_eq!(first.as_ptr().wrapping_add(10), second.as_ptr());
        // The end of the buffer brings another.
        assert_eq!(loans.take(flags(0, false), BUFFER - 30).unwrap().len(), BUFFER - 30);
        assert_eq!(loans.tail, BUFFERS + 1);
        assert_eq!(loans.take(flags(0, false), BUFFER).unwrap().len(), BUFFER);
        assert_eq!(loans.tail, BUFFERS + 2);
    }

    #[test]
    fn a_receive_beyond_a_buffer_is_rejected() {
        let ring = io_uring::IoUring::new(2).unwrap();
        let mut loans = Loans::new(&ring.submitter()).unwrap();
        assert!(loans.take(flags(1, false), BUFFER + 1).is_none());
        assert!(loans.take(flags(BUFFERS, false), 1).is_none());
        assert!(loans.take(0, 1).is_none());
        assert_eq!(loans.tail, BUFFERS);
    }
}
