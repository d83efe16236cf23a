//! Receive low-water mark: wakes the pump for many bytes rather than for a few.

use onego_wire::Time;

/// Minimum ratio of the mark to what arrives without one. A smaller gain is lost again: the two sides alternate, and
/// bytes that wait longer leave the cache.
const GAIN: usize = 4;

/// Consecutive waits without a mark that sample how many bytes arrive then.
const SAMPLE: u32 = 8;

/// Waits with the mark between two samples.
const TERM: u32 = 1 << 9;

/// Maximum number of waits without a mark after late ones.
const MOST_SPARED: u32 = 1 << 12;

/// Waits with the mark that halve the penalty of the next late one: occasionally the peer's thread loses its processor
/// for longer than the delay.
const RECOVERY: u32 = 1 << 4;

/// Low-water mark of a connection.
///
/// A peer that answers many requests at a time wakes this side with its first byte, and the rest arrives during the
/// wake-up: a mark gains nothing. So the pump samples from time to time how many bytes a wait without a mark brings.
/// Where the marked number repeatedly does not arrive within the delay, the machine's expectation was wrong or the peer
/// is slow. Then the next waits have no mark, and their number doubles with each repetition.
#[derive(Debug, Default)]
pub(super) struct LowWater {
    /// Mark that the machine requests. At most 1: none.
    pub(super) mark: usize,
    /// Mark of the last wait, as set in the engine.
    pub(super) set: usize,
    pub(super) until: Option<Time>,
    /// Bytes received since the wait began.
    came: usize,
    /// Running average of the bytes that a wait without a mark brings.
    unmarked: usize,
    /// Remaining waits without a mark.
    spared: u32,
    /// Remaining waits with a mark before the next sample.
    left: u32,
    /// Number of waits without a mark after the next late one.
    penalty: u32,
}

impl LowWater {
    pub(super) fn received(&mut self, bytes: usize) {
        self.until = None;
        self.came += bytes;
    }

    /// Returns the mark of a wait without one that is no sample.
    pub(super) fn unmarked(&mut self) -> usize {
        self.came = 0;
        1
    }

    pub(super) fn next(&mut self) -> usize {
        let came = std::mem::take(&mut self.came);
        if self.set <= 1 && came > 0 {
            self.unmarked = if self.unmarked == 0 { came } else { (self.unmarked * 7 + came) / 8 };
        }
        if self.spared > 0 {
            self.spared -= 1;
        } else if self.left == 0 {
            (self.spared, self.left) = (SAMPLE, TERM);
        } else if self.unmarked * GAIN <= self.mark {
            self.left -= 1;
            if self.left.is_multiple_of(RECOVERY) {
                self.penalty /= 2;
            }
            return self.mark;
        }
        1
    }

    pub(super) fn is_late(&mut self, now: Time) -> bool {
        let over = self.until.take_if(|until| *until <= now).is_some();
        if over {
            self.penalty = (self.penalty * 2).clamp(SAMPLE, MOST_SPARED);
            self.spared = self.penalty;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `waits` have a mark, if `late` selects those in which fewer bytes arrive.
    fn marked_waits(waits: usize, late: impl Fn(usize) -> bool) -> usize {
        let start = Time::from_nanos(1);
        let mut low_water = LowWater { mark: 64 << 10, ..LowWater::default() };
        let mut many = 0;
        for _ in 0..waits {
            low_water.set = low_water.next();
            if low_water.set == 1 {
                low_water.received(4 << 10);
                continue;
            }
            many += 1;
            low_water.until = Some(start);
            if late(many) {
                assert!(low_water.is_late(start));
            }
            low_water.received(64 << 10);
        }
        many
    }

    #[test]
    fn a_peer_that_is_late_now_and_then_keeps_its_mark() {
        let many = marked_waits(100_000, |many| many.is_multiple_of(30));
        assert!(many > 70_000, "{many} of 100,000 waits had a mark");
    }

    #[test]
    fn a_peer_that_is_always_late_loses_its_mark() {
        let many = marked_waits(100_000, |_| true);
        assert!((10..100).contains(&many), "{many} of 100,000 waits had a mark");
    }

    #[test]
    fn the_mark_is_off_if_as_many_bytes_arrive_without_it() {
        let mut low_water = LowWater { mark: 16 << 10, ..LowWater::default() };
        for _ in 0..1000 {
            low_water.set = low_water.next();
            assert_eq!(low_water.set, 1);
            low_water.received(16 << 10);
        }
    }
}
