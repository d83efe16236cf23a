//! Memory accessible to the peer, by key.

use super::violation::Violation;
use crate::memory::{Key, Memory};
use onego_buf::{List, SegmentMut};
use std::fmt;

/// Source of unpredictable numbers for keys: a peer that knows a key may use its region.
pub type Entropy = Box<dyn FnMut() -> u64 + Send>;

/// Minimum number of bits in a key that distinguish registrations in the same slot (RFC 5040 leaves the lower 8 to the
/// user).
const KEY_BITS: u32 = 8;

const SLOTS_MAX: usize = 1 << (u32::BITS - KEY_BITS);

#[derive(Debug)]
pub(super) enum Held {
    Free,
    Memory(Memory),
    /// The sink of an RDMA Read of this side, which holds the memory itself.
    Sink,
}

#[derive(Debug)]
struct Slot {
    /// The key, or that of the last registration.
    key: u32,
    base: u64,
    len: usize,
    /// Bytes from the start to the end of what the peer has written.
    written: usize,
    held: Held,
}

/// All regions of a connection.
///
/// The index of a key is its slot in the low bits; all other bits are random, so that fewer slots leave less to guess.
pub(super) struct Regions {
    slots: Vec<Slot>,
    free: Vec<u32>,
    bits: u32,
    entropy: Entropy,
}

impl fmt::Debug for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regions({} of {} slots)", self.slots.len() - self.free.len(), self.slots.len())
    }
}

fn within(base: u64, size: usize, offset: u64, len: usize) -> Option<usize> {
    let start = usize::try_from(offset.checked_sub(base)?).ok()?;
    (start.checked_add(len)? <= size).then_some(start)
}

pub(super) fn wraps(offset: u64, len: usize) -> bool {
    len.checked_sub(1).is_some_and(|last| offset.checked_add(last as u64).is_none())
}

impl Regions {
    pub(super) fn new(capacity: usize, entropy: Entropy) -> Self {
        let capacity = capacity.clamp(1, SLOTS_MAX).next_power_of_two();
        Self { slots: Vec::new(), free: Vec::new(), bits: capacity.trailing_zeros(), entropy }
    }

    /// Creates a key for `held`. The caller has checked that there is room.
    pub(super) fn insert(&mut self, held: Held, len: usize, base: u64) -> u32 {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let last = self.slots.get(slot as usize).map(|slot| slot.key);
        let key = self.new_key(slot, last);
        let entry = Slot { key, base, len, written: 0, held };
        match self.slots.get_mut(slot as usize) {
            Some(old) => *old = entry,
            None => self.slots.push(entry),
        }
        key
    }

    /// Returns a key for that slot. It is not 0, and differs from the `last` one in its lower 8 bits whatever the
    /// random number.
    fn new_key(&mut self, slot: u32, last: Option<u32>) -> u32 {
        let mask = self.mask();
        let random = (self.entropy)() as u32;
        let index = random & !(mask << KEY_BITS) & !0xff | slot << KEY_BITS;
        let (mut low, last) = (random as u8, last.map(|last| last as u8));
        while last == Some(low) || index | u32::from(low) == 0 {
            low = low.wrapping_add(1);
        }
        index | u32::from(low)
    }

    fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    fn index(&self, key: u32) -> usize {
        ((key >> KEY_BITS) & self.mask()) as usize
    }

    fn slot(&mut self, key: u32) -> Option<(u32, &mut Slot)> {
        let at = self.index(key);
        let slot = self.slots.get_mut(at)?;
        (slot.key == key && !matches!(slot.held, Held::Free)).then_some((at as u32, slot))
    }

    pub(super) fn take(&mut self, key: u32) -> Option<Memory> {
        let (at, slot) = self.slot(key)?;
        match std::mem::replace(&mut slot.held, Held::Free) {
            Held::Memory(memory) => {
                self.free.push(at);
                Some(memory)
            }
            other => {
                slot.held = other;
                None
            }
        }
    }

    /// Takes the memory of a sink but keeps its key.
    pub(super) fn withdraw(&mut self, key: u32) -> Option<SegmentMut> {
        self.sink(key).map(|sink| std::mem::replace(sink, SegmentMut::zeroed(0)))
    }

    /// Returns whether the key of a sink has lost its memory.
    pub(super) fn is_withdrawn(&mut self, key: u32) -> bool {
        self.slot(key).is_some_and(|(_, slot)| match &slot.held {
            Held::Memory(Memory::Sink(sink)) => sink.len() < slot.len,
            _ => false,
        })
    }

    pub(super) fn release_sink(&mut self, key: u32) {
        if let Some((at, slot)) = self.slot(key)
            && matches!(slot.held, Held::Sink)
        {
            slot.held = Held::Free;
            self.free.push(at);
        }
    }

    /// Returns the sink under a key, taking it from its pool if necessary.
    pub(super) fn sink(&mut self, key: u32) -> Option<&mut SegmentMut> {
        let (_, Slot { held: Held::Memory(memory), .. }) = self.slot(key)? else { return None };
        memory.sink()
    }

    pub(super) fn write(&mut self, key: u32, offset: u64, len: usize) -> Result<usize, Violation> {
        let (_, slot) = self.slot(key).ok_or(Violation::WriteKey(key))?;
        if !matches!(slot.held, Held::Memory(Memory::Sink(_) | Memory::Fresh(..))) {
            return Err(Violation::WriteAccess(key));
        }
        if wraps(offset, len) {
            return Err(Violation::WriteWraps(offset));
        }
        let start = within(slot.base, slot.len, offset, len).ok_or(Violation::WriteBounds { key, offset })?;
        slot.written = slot.written.max(start + len);
        Ok(start)
    }

    pub(super) fn unwritten(&self, key: u32, at: usize) -> Option<usize> {
        let slot = self.slots.get(self.index(key))?;
        (slot.key == key && slot.written <= at).then_some(slot.len)
    }

    pub(super) fn read(&mut self, key: u32, offset: u64, len: u32) -> Result<List, Violation> {
        let (_, slot) = self.slot(key).ok_or(Violation::ReadKey(key))?;
        let Held::Memory(Memory::Source(list)) = &slot.held else { return Err(Violation::ReadAccess(key)) };
        if wraps(offset, len as usize) {
            return Err(Violation::ReadWraps(offset));
        }
        let start = within(slot.base, slot.len, offset, len as usize);
        start.map(|start| list.slice(start, len as usize)).ok_or(Violation::ReadBounds { key, offset, len })
    }

    pub(super) fn drain(&mut self) -> Vec<(Key, Memory)> {
        let keys: Vec<u32> = self.slots.iter().map(|slot| slot.key).collect();
        keys.into_iter().filter_map(|key| Some((Key(key), self.take(key)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(capacity: usize) -> Regions {
        let mut state = 1_u64;
        Regions::new(
            capacity,
            Box::new(move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 16
            }),
        )
    }

    fn sink(len: usize) -> Held {
        Held::Memory(Memory::Sink(SegmentMut::zeroed(len)))
    }

    #[test]
    fn a_key_changes_with_each_registration() {
        let mut regions = regions(1);
        let mut last = 0;
        for _ in 0..2000 {
            let key = regions.insert(sink(1), 1, 0);
            assert_ne!((key ^ last) & 0xff, 0);
            assert_eq!(regions.write(last, 0, 1), Err(Violation::WriteKey(last)));
            assert!(regions.take(key).is_some());
            assert!(regions.take(key).is_none());
            last = key;
        }
    }

    #[test]
    fn a_region_is_written_within_its_bounds() {
        let mut regions = regions(64);
        let base = u64::MAX - 49;
        let key = regions.insert(sink(50), 50, base);
        assert_eq!(regions.write(key, base, 50), Ok(0));
        assert_eq!(regions.write(key, base + 49, 1), Ok(49));
        for (offset, len) in [(base - 1, 51), (base - 1, 1), (0, 1)] {
            assert_eq!(regions.write(key, offset, len), Err(Violation::WriteBounds { key, offset }));
        }
        assert_eq!(regions.write(key, u64::MAX, 2), Err(Violation::WriteWraps(u64::MAX)));
        assert_eq!(regions.read(key, base, 1), Err(Violation::ReadAccess(key)));
    }

    #[test]
    fn only_a_source_is_read() {
        let mut regions = regions(64);
        let source = List::from(b"0123456789".to_vec());
        let key = regions.insert(Held::Memory(Memory::Source(source)), 10, 1000);
        assert_eq!(regions.read(key, 1003, 4).unwrap().to_vec(), b"3456");
        assert_eq!(regions.write(key, 1000, 1), Err(Violation::WriteAccess(key)));
        assert_eq!(regions.read(key, 1003, 8), Err(Violation::ReadBounds { key, offset: 1003, len: 8 }));
        let own = regions.insert(Held::Sink, 10, 0);
        assert_eq!(regions.write(own, 0, 1), Err(Violation::WriteAccess(own)));
        assert!(regions.take(own).is_none(), "the peer cannot invalidate it");
        regions.release_sink(own);
        assert_eq!(regions.write(own, 0, 1), Err(Violation::WriteKey(own)));
    }
}
