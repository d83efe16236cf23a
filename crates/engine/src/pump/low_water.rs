//! The receive low-water mark: waking up for many bytes rather than for a few.

use super::Pump;
use super::conn::Conn;
use crate::engine::{Engine, Wait};
use onego_wire::{ConnId, Machine, Time};
use std::time::Duration;

/// How long fewer bytes than the mark may wait. In a virtual machine a shorter timer costs more than it saves.
const DELAY: Duration = Duration::from_millis(1);

/// The mark must be this many times what arrives without one. A smaller gain is lost again: the two sides take turns, and
/// bytes that wait for longer leave the cache.
const GAIN: usize = 4;

/// Consecutive waits without a mark, to see how many bytes arrive then.
const SAMPLE: u32 = 8;

/// Waits with the mark between two such samples.
const TERM: u32 = 1 << 9;

/// The most waits without a mark, after the delay has ended others.
const MOST_SPARED: u32 = 1 << 12;

/// Waits with the mark that halve the penalty of the next late one: now and then the peer's thread loses its processor for
/// longer than the delay.
const RECOVERY: u32 = 1 << 4;

/// The low-water mark of a connection.
///
/// A peer that answers many requests at a time wakes this side with its first byte, and the rest arrives during the wake-up:
/// a mark gains nothing. So the pump samples from time to time how many bytes a wait without a mark brings. Where the marked
/// number repeatedly does not arrive within the delay, the machine's expectation was wrong or the peer is slow. Then the next
/// waits have no mark, and twice as many each time that it happens.
#[derive(Debug, Default)]
pub(super) struct LowWater {
    /// The mark that the machine asks for; up to 1: none.
    mark: usize,
    /// The mark of the last wait, as the engine has it.
    set: usize,
    /// When the delay of the current wait ends.
    until: Option<Time>,
    /// Bytes received since the wait began.
    came: usize,
    /// Bytes that a wait without a mark brings, on average.
    unmarked: usize,
    /// Waits without a mark to come...
    spared: u32,
    /// ...and waits with one, before the next sample.
    left: u32,
    /// Waits without a mark after the next late one.
    penalty: u32,
}

impl LowWater {
    /// Bytes were received: the wait for them is over.
    pub(super) fn received(&mut self, bytes: usize) {
        self.until = None;
        self.came += bytes;
    }

    /// The next wait is without a mark, and is no sample.
    fn unmarked(&mut self) -> usize {
        self.came = 0;
        1
    }

    /// The mark of the next wait.
    fn next(&mut self) -> usize {
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

    /// Has the delay of the current wait ended?
    fn is_late(&mut self, now: Time) -> bool {
        let over = self.until.take_if(|until| *until <= now).is_some();
        if over {
            self.penalty = (self.penalty * 2).clamp(SAMPLE, MOST_SPARED);
            self.spared = self.penalty;
        }
        over
    }
}

impl<E: Engine, M: Machine> Pump<E, M> {
    /// The machine asks for a low-water mark.
    pub(super) fn set_mark(&mut self, conn: ConnId, bytes: usize) {
        let Some(&mut socket) = self.names.get_mut(conn) else { return };
        let Some(conn) = self.conns.get_mut(socket) else { return };
        conn.low_water.mark = bytes;
        conn.budget.expect(bytes);
        if !self.marked.contains(&socket) {
            self.marked.push(socket);
        }
    }

    /// Before the pump sleeps: sets the marks, and returns how long to sleep if fewer bytes arrive. The machine's mark changes
    /// with each request; it costs a system call only if it differs from that of the last sleep.
    pub(super) fn apply_marks(&mut self, now: Time, wait: Wait, spins: bool) -> Wait {
        self.marked.retain(|&socket| {
            let Some(Conn { low_water, .. }) = self.conns.get_mut(socket) else { return false };
            let next = if spins { low_water.unmarked() } else { low_water.next() };
            if next != low_water.set.max(1) && !self.engine.set_low_water(socket, next) {
                return false;
            }
            low_water.set = next;
            low_water.mark > 1
        });
        self.begin_delays(now);
        match (wait, self.delay_ends()) {
            (Wait::Until(time), Some(until)) => Wait::Until(time.min(until)),
            (Wait::Forever, Some(until)) => Wait::Until(until),
            (wait, _) => wait,
        }
    }

    /// The caller may sleep until the pump's deadline: the delays of bytes that the engine holds back count for it.
    pub(super) fn begin_delays(&mut self, now: Time) {
        for &socket in &self.marked {
            if let Some(Conn { low_water, .. }) = self.conns.get_mut(socket)
                && low_water.set > 1
            {
                low_water.until.get_or_insert(now + DELAY);
            }
        }
    }

    /// When the first delay ends.
    pub(super) fn delay_ends(&self) -> Option<Time> {
        let conns = self.marked.iter().filter_map(|&socket| self.conns.get(socket));
        conns.filter_map(|conn| conn.low_water.until).min()
    }

    /// Receives on connections whose delay has ended.
    pub(super) fn end_delays(&mut self, now: Time) {
        for index in 0..self.marked.len() {
            let socket = self.marked[index];
            if let Some(conn) = self.conns.get_mut(socket)
                && conn.low_water.is_late(now)
            {
                conn.set_readable();
                self.want_receive(socket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `waits` have a mark, if fewer bytes arrive each time that `late` says so.
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
    fn there_is_no_mark_where_as_many_bytes_arrive_without_one() {
        let mut low_water = LowWater { mark: 16 << 10, ..LowWater::default() };
        for _ in 0..1000 {
            low_water.set = low_water.next();
            assert_eq!(low_water.set, 1);
            low_water.received(16 << 10);
        }
    }
}
