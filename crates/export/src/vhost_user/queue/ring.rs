//! The three parts of a queue, and what is read and written there.

use super::super::codec::RingAddresses;
use super::super::error::QueueError;
use onego_guest_memory::{GuestMemory, Window};
use std::sync::atomic::{Ordering, fence};

/// The driver does not want to be told of used chains (virtio 2.7.6).
const NO_INTERRUPT: u16 = 1;

/// Bytes of a descriptor (virtio 2.7.5).
pub(super) const DESCRIPTOR_LEN: usize = 16;

/// The device's side of a queue in the memory of the guest. What the guest writes there is read once and checked.
#[derive(Debug)]
pub struct SplitRing {
    size: u16,
    descriptors: Window,
    available: Window,
    used: Window,
    event_index: bool,
    /// Chains that were taken.
    next_available: u16,
    /// Chains that were put back, and those of them that the driver can see.
    next_used: u16,
    published: u16,
    /// What was published when the driver was last told.
    told: Option<u16>,
    /// By first descriptor: the chain was taken and is not put back.
    taken: Box<[bool]>,
}

/// A descriptor as it was read, once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

impl Descriptor {
    pub(super) fn decode(bytes: &[u8; DESCRIPTOR_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
        Self {
            address: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            length: u32::from_le_bytes([i, j, k, l]),
            flags: u16::from_le_bytes([m, n]),
            next: u16::from_le_bytes([o, p]),
        }
    }
}

impl SplitRing {
    /// A queue of `size` descriptors, a power of two, of which chains were taken up to `next_available`. `None`: it is not all in
    /// memory, or not aligned.
    pub fn new(
        memory: &GuestMemory,
        size: u16,
        at: RingAddresses,
        event_index: bool,
        next_available: u16,
    ) -> Option<Self> {
        let n = u64::from(size);
        let aligned =
            at.descriptors.is_multiple_of(16) && at.available.is_multiple_of(2) && at.used.is_multiple_of(4);
        if !aligned {
            return None;
        }
        let used = memory.window_of_user(at.used, 6 + 8 * n)?;
        let available = memory.window_of_user(at.available, 6 + 2 * n)?;
        // Windows begin where the region does, which need not be aligned.
        if used.is_misaligned() || available.is_misaligned() {
            return None;
        }
        let next_used = used.load_u16(2);
        Some(Self {
            size,
            descriptors: memory.window_of_user(at.descriptors, 16 * n)?,
            available,
            used,
            event_index,
            next_available,
            next_used,
            published: next_used,
            told: None,
            taken: vec![false; usize::from(size)].into(),
        })
    }

    /// Descriptors of the table.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Chains that the driver sees as used, modulo 2^16.
    pub fn published(&self) -> u16 {
        self.published
    }

    /// Chains that were taken so far, modulo 2^16.
    pub fn next_available(&self) -> u16 {
        self.next_available
    }

    /// Goes on as if the chains with these heads had been taken: those in flight when a server before this one
    /// ended.
    pub fn set_in_flight(&mut self, heads: &[u16]) {
        self.next_available = self.next_used.wrapping_add(heads.len() as u16);
        for head in heads {
            self.taken[usize::from(*head)] = true;
        }
    }

    /// Takes the next chain that is available: its first descriptor.
    pub fn take(&mut self) -> Result<Option<u16>, QueueError> {
        let waiting = self.available.load_u16(2).wrapping_sub(self.next_available);
        if waiting > self.size {
            return Err(QueueError::TooMany(waiting));
        }
        if waiting == 0 {
            return Ok(None);
        }
        let place = usize::from(self.next_available & (self.size - 1));
        let head = self.available.load_u16(4 + 2 * place);
        let taken = self.taken.get_mut(usize::from(head)).ok_or(QueueError::Head(head))?;
        if std::mem::replace(taken, true) {
            return Err(QueueError::Twice(head));
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// Asks the driver to kick when more is available. `true`: more is, already.
    pub fn want_kick(&mut self) -> bool {
        if self.event_index {
            self.used.store_u16(4 + 8 * usize::from(self.size), self.next_available);
            // The driver looks at what was just stored after it has made more available, and we the other way round.
            fence(Ordering::SeqCst);
        }
        self.available.load_u16(2) != self.next_available
    }

    pub(super) fn descriptor(&self, index: u16) -> Option<Descriptor> {
        if index >= self.size {
            return None;
        }
        let mut bytes = [0; DESCRIPTOR_LEN];
        self.descriptors.read(DESCRIPTOR_LEN * usize::from(index), &mut bytes);
        Some(Descriptor::decode(&bytes))
    }

    /// Puts a chain back, of which `written` bytes were written. The driver sees it once it is [published](Self::publish).
    pub fn put(&mut self, head: u16, written: u32) {
        let place = 4 + 8 * usize::from(self.next_used & (self.size - 1));
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        self.used.write(place, &entry);
        self.next_used = self.next_used.wrapping_add(1);
        self.taken[usize::from(head)] = false;
    }

    /// Lets the driver see what was put back: how many chains were, modulo 2^16.
    pub fn publish(&mut self) -> u16 {
        self.used.store_u16(2, self.next_used);
        self.published = self.next_used;
        self.published
    }

    /// Does the driver want to be told of what was published (virtio 2.7.10)?
    pub fn must_tell(&mut self) -> bool {
        // The driver asks after it has looked for used chains, and looks again; we the other way round.
        fence(Ordering::SeqCst);
        if !self.event_index {
            return self.available.load_u16(0) & NO_INTERRUPT == 0;
        }
        let event = self.available.load_u16(4 + 2 * usize::from(self.size));
        let new = self.published;
        let Some(old) = self.told.replace(new) else { return true };
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }
}
