//! Fronts of queued messages, contiguous in one buffer.

use onego_wire::Writer;

/// Capacity kept when the queue is empty. The fronts of a deep request queue take some 30 KiB.
const KEEP: usize = 64 << 10;

/// Fronts in message order. Encoding one allocates no memory of its own, and the only copy is the one into the send
/// buffer.
#[derive(Debug, Default)]
pub(crate) struct Fronts {
    bytes: Writer,
    taken: usize,
}

impl Fronts {
    /// Appends the front that `encode` writes. Returns its length.
    #[inline]
    pub(crate) fn add(&mut self, encode: impl FnOnce(&mut Writer)) -> usize {
        if self.taken > KEEP {
            self.make_room();
        }
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.bytes.len() - start
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> &[u8] {
        let start = self.taken;
        self.taken += len;
        &self.bytes.as_slice()[start..self.taken]
    }

    pub(crate) fn clear(&mut self) {
        self.taken = 0;
        if self.bytes.len() > KEEP {
            self.bytes = Writer::new();
        } else {
            self.bytes.clear();
        }
    }

    /// Drops the taken bytes. This moves at most as many bytes as it frees, unless the queue is unusually long.
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
    fn fronts_come_out_in_order_however_many_there_are() {
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
        assert!(added > taken && fronts.taken < 2 * KEEP, "taken bytes are dropped");
        fronts.clear();
        assert_eq!(fronts.add(|w| w.u8(9)), 1);
        assert_eq!(fronts.take(1), [9]);
    }
}
