use slab::Slab;
use std::collections::VecDeque;

/// Rule by which a slot is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flush {
    /// After each send: one event per send.
    #[default]
    EachSend,
    /// Once this number of sends is attached.
    Sends(u32),
    /// Only by [`Notifier::flush`].
    Asked,
}

/// Name of a notification slot. A name is reused once its event was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotId(usize);

/// Event of a slot: the memory of all its sends is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// The slot.
    pub slot: SlotId,
    /// Number of sends that were attached.
    pub sends: u32,
    /// Number of them that the kernel copied after all.
    pub copied: u32,
}

#[derive(Debug, Default)]
struct Slot {
    sends: u32,
    /// Sends whose memory the kernel uses.
    outstanding: u32,
    copied: u32,
    flushed: bool,
}

/// Notification slots: sends are attached to the open one, and flushing it yields one event when the memory of all of
/// them is free.
///
/// The number of slots is bounded by the attached sends, which the sender bounds.
#[derive(Debug, Default)]
pub struct Notifier {
    flush: Flush,
    slots: Slab<Slot>,
    open: Option<usize>,
    freed: VecDeque<Freed>,
}

impl Notifier {
    /// Creates a notifier without slots.
    pub fn new(flush: Flush) -> Self {
        Self { flush, ..Self::default() }
    }

    /// Attaches a send to the open slot. Each attached send needs a call of [`release`](Self::release).
    pub fn attach(&mut self) -> SlotId {
        let key = *self.open.get_or_insert_with(|| self.slots.insert(Slot::default()));
        let slot = &mut self.slots[key];
        slot.sends += 1;
        slot.outstanding += 1;
        let full = match self.flush {
            Flush::EachSend => true,
            Flush::Sends(sends) => slot.sends >= sends,
            Flush::Asked => false,
        };
        if full {
            self.flush();
        }
        SlotId(key)
    }

    /// Closes the open slot, if any send is attached to it. Its event follows once the memory of all of them is free.
    pub fn flush(&mut self) -> Option<SlotId> {
        let key = self.open.take()?;
        self.slots[key].flushed = true;
        self.finish_if_free(key);
        Some(SlotId(key))
    }

    /// Reports that the memory of one send is free.
    pub fn release(&mut self, slot: SlotId, copied: bool) {
        let Some(of) = self.slots.get_mut(slot.0) else { return };
        of.outstanding = of.outstanding.saturating_sub(1);
        of.copied += u32::from(copied);
        self.finish_if_free(slot.0);
    }

    fn finish_if_free(&mut self, key: usize) {
        let Slot { sends, outstanding, copied, flushed } = self.slots[key];
        if flushed && outstanding == 0 {
            self.slots.remove(key);
            self.freed.push_back(Freed { slot: SlotId(key), sends, copied });
        }
    }

    /// Returns the next event, in the order in which memory became free.
    pub fn next_freed(&mut self) -> Option<Freed> {
        self.freed.pop_front()
    }

    /// Returns the number of slots without an event so far.
    pub fn outstanding(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_event_when_all_its_sends_are_free_and_it_is_flushed() {
        let mut notifier = Notifier::new(Flush::Asked);
        let slot = notifier.attach();
        assert_eq!(notifier.attach(), slot);
        notifier.release(slot, false);
        notifier.release(slot, true);
        assert_eq!(notifier.next_freed(), None, "not flushed yet");
        assert_eq!(notifier.flush(), Some(slot));
        assert_eq!(notifier.next_freed(), Some(Freed { slot, sends: 2, copied: 1 }));
        assert_eq!((notifier.flush(), notifier.outstanding()), (None, 0));
    }

    #[test]
    fn a_flushed_slot_waits_for_its_last_send_and_others_do_not_wait_for_it() {
        let mut notifier = Notifier::new(Flush::Sends(2));
        let first = (notifier.attach(), notifier.attach());
        let second = (notifier.attach(), notifier.attach());
        assert_eq!((first.0, second.0), (first.1, second.1));
        assert_ne!(first.0, second.0);
        notifier.release(first.0, false);
        notifier.release(second.0, false);
        notifier.release(second.0, false);
        assert_eq!(notifier.next_freed().map(|freed| freed.slot), Some(second.0));
        assert_eq!(notifier.next_freed(), None);
        notifier.release(first.0, false);
        assert_eq!(notifier.next_freed().map(|freed| freed.sends), Some(2));
    }

    #[test]
    fn each_send_may_have_its_own_event() {
        let mut notifier = Notifier::new(Flush::EachSend);
        let slots = [notifier.attach(), notifier.attach()];
        assert_eq!(notifier.flush(), None);
        slots.into_iter().for_each(|slot| notifier.release(slot, false));
        let freed: Vec<_> = std::iter::from_fn(|| notifier.next_freed()).map(|freed| freed.sends).collect();
        assert_eq!(freed, [1, 1]);
    }
}
