//! When the memory of what was deleted goes back to the system.

use onego_engine::trim_heap;

/// Bytes that have to be gone before it is worth the time: less is soon used again.
const WORTH_WHILE: u64 = 64 << 20;

/// Gives memory back when half of what was stored is gone.
#[derive(Debug, Default)]
pub struct Trimmer {
    /// Most bytes that were stored since memory was given back last.
    most: u64,
}

impl Trimmer {
    /// `stored` bytes are stored now.
    #[inline]
    pub fn look(&mut self, stored: u64) {
        if self.is_due(stored) {
            trim_heap();
        }
    }

    fn is_due(&mut self, stored: u64) -> bool {
        self.most = self.most.max(stored);
        let gone = self.most - stored;
        let is_due = gone >= WORTH_WHILE && gone >= self.most / 2;
        if is_due {
            self.most = stored;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_once_half_of_it_is_free() {
        let mut trimmer = Trimmer::default();
        let mib = |n: u64| n << 20;
        let due: Vec<u64> = (0..=1024).rev().map(mib).filter(|stored| trimmer.is_due(*stored)).collect();
        assert_eq!(due, [512, 256, 128, 64, 0].map(mib));
        assert!(!trimmer.is_due(mib(60)) && !trimmer.is_due(0), "too little");
    }
}
