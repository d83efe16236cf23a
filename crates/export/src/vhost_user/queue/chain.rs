//! Chains of descriptors (virtio 2.7.5).

use super::super::error::QueueError;
use super::super::limits::QUEUE_SIZE_MAX;
use super::ring::{DESCRIPTOR_LEN, Descriptor, SplitRing};
use onego_guest_memory::GuestMemory;
use smallvec::SmallVec;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Memory of the guest that a descriptor names; it need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// The memory of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// What the device reads.
    pub readable: SmallVec<[Span; 4]>,
    /// What the device writes.
    pub writable: SmallVec<[Span; 4]>,
}

impl Chain {
    /// Reads a chain: each descriptor once, and at most as many as a queue may have, so that a chain in a circle ends.
    pub fn read(
        ring: &SplitRing,
        memory: &GuestMemory,
        head: u16,
        indirect: bool,
    ) -> Result<Self, QueueError> {
        let mut chain = Self::default();
        let mut descriptor = ring.descriptor(head).ok_or(QueueError::Head(head))?;
        for _ in 0..ring.size() {
            if descriptor.flags & INDIRECT != 0 {
                if !indirect || descriptor.flags & NEXT != 0 {
                    return Err(QueueError::Indirect);
                }
                chain.indirect(memory, descriptor)?;
                return Ok(chain);
            }
            chain.push(descriptor)?;
            if descriptor.flags & NEXT == 0 {
                return Ok(chain);
            }
            descriptor = ring.descriptor(descriptor.next).ok_or(QueueError::Endless)?;
        }
        Err(QueueError::Endless)
    }

    /// Follows a table of its own, which is copied first: its guest may change it meanwhile.
    fn indirect(&mut self, memory: &GuestMemory, table: Descriptor) -> Result<(), QueueError> {
        let length = table.length as usize;
        let count = length / DESCRIPTOR_LEN;
        if count == 0 || !length.is_multiple_of(DESCRIPTOR_LEN) || count > usize::from(QUEUE_SIZE_MAX) {
            return Err(QueueError::Indirect);
        }
        let mut bytes: SmallVec<[u8; 16 * DESCRIPTOR_LEN]> = SmallVec::from_elem(0, length);
        memory.read(table.address, &mut bytes).map_err(|_| QueueError::Indirect)?;
        let (descriptors, _) = bytes.as_chunks::<DESCRIPTOR_LEN>();
        let mut next = 0;
        for _ in 0..count {
            let descriptor = descriptors.get(next).map(Descriptor::decode).ok_or(QueueError::Endless)?;
            if descriptor.flags & INDIRECT != 0 {
                return Err(QueueError::Indirect);
            }
            self.push(descriptor)?;
            if descriptor.flags & NEXT == 0 {
                return Ok(());
            }
            next = usize::from(descriptor.next);
        }
        Err(QueueError::Endless)
    }

    fn push(&mut self, descriptor: Descriptor) -> Result<(), QueueError> {
        let span = Span { address: descriptor.address, length: descriptor.length };
        if descriptor.flags & WRITE != 0 {
            self.writable.push(span);
        } else if self.writable.is_empty() {
            self.readable.push(span);
        } else {
            return Err(QueueError::Order);
        }
        Ok(())
    }
}
