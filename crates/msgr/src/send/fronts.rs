//! Fronts of the messages in a queue, one behind the other in one piece of memory.

use onego_wire::Writer;

/// Bytes that are kept when the queue is empty. A deep queue of requests has fronts of some 30 KiB.
const KEEP: usize = 64 << 10;

/// Fronts in the order of their messages: to encode one takes no memory of its own, and nothing is copied but to
/// where it is sent from.
#[derive(Debug, Default)]
pub(crate) struct Fronts {
    bytes: Writer,
    /// Bytes that were taken.
    taken: usize,
}

impl Fronts {
    /// Adds what `encode` writes, and returns its length.
    #[inline]
    pub(crate) fn add(&mut self, encode: impl FnOnce(&mut Writer)) -> usize {
        if self.taken > KEEP {
            self.make_room();
        }
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.bytes.len() - start
    }

    /// The oldest `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> &[u8] {
        let start = self.taken;
        self.taken += len;
        &self.bytes.as_slice()[start..self.taken]
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.taken = 0;
        if self.bytes.len() > KEEP {
            self.bytes = Writer::new();
        } else {
            self.bytes.clear();
        }
    }

    /// Lets go of what was taken. It is as much as is moved, or the queue has grown beyond all that is usual.
    #[cold]
    fn make_room(&mut self) {
        let rest = self.bytes.as_slice()[self.taken..].to_vec();
        self.clear();
        self.bytes.put(&rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_come_out_as_they_went_in_however_many_there_are() {
        let mut fronts = Fronts::default();
        let front = |n: usize| vec![n as u8; n % 700];
        let (mut added, mut taken) = (0, 0);
        for round in 0..2000 {
            for _ in 0..round % 4 {
                assert_eq!(fronts.add(|w| w.put(&front(added))), front(added).len());
                added += 1;
            }
            if taken < added {
                assert_eq!(fronts.take(front(taken).len()), front(taken));
                taken += 1;
            }
        }
        assert!(added > taken && fronts.taken < 2 * KEEP, "what was taken is let go of");
        fronts.clear();
        assert_eq!(fronts.add(|w| w.u8(9)), 1);
        assert_eq!(fronts.take(1), [9]);
    }
}
