//! Waking up for many bytes rather than for a few.

use super::Pump;
use super::conn::Conn;
use super::pace;
use crate::engine::{Engine, Wait};
use onego_wire::{ConnId, Machine, Time};
use std::time::Duration;

/// How long fewer bytes may lie there than are worth a wake-up. In a virtual machine a shorter timer costs more than it
/// spares.
const PATIENCE: Duration = Duration::from_millis(1);

/// How many times the bytes that come anyhow must be wanted: what is won by less is lost again because the two sides take
/// turns, and because what lies there for longer leaves the cache.
const GAIN: usize = 4;

/// Waits that any byte ends, in a row, to see how many come anyhow.
const SAMPLE: u32 = 8;

/// Waits for many bytes between two such samples.
const TERM: u32 = 1 << 9;

/// The most waits that any byte ends, after patience was in vain.
const MOST_SPARED: u32 = 1 << 12;

/// Waits for many bytes that halve how many are spared after the next in vain: now and then the peer's thread loses its
/// processor for longer than patience lasts.
const FORGIVEN: u32 = 1 << 4;

/// From how many bytes on a connection is to be told of them.
///
/// A peer that answers many requests at a time is heard at its first byte, and what follows comes while this side wakes up:
/// there is nothing to win. So it is looked, now and then, how many bytes there are when any byte ends the wait. And where as
/// many as are wanted often did not come for long, what the machine expects was wrong, or the peer is slow: then any byte ends
/// the next waits, of which there are twice as many each time that it happens.
#[derive(Debug, Default)]
pub(super) struct LowWater {
    /// What the machine wants; up to 1: any byte.
    least: usize,
    /// What the engine was told, at the last wait.
    set: usize,
    /// When fewer bytes are looked for, since the pump began to wait.
    until: Option<Time>,
    /// Bytes received since then.
    came: usize,
    /// Bytes that a wait for any byte brings, on an average.
    anyhow: usize,
    /// Waits to come that are for any byte...
    spared: u32,
    /// ...and for many, before the next sample.
    left: u32,
    /// Waits that are spared after the next failure.
    penalty: u32,
}

impl LowWater {
    /// How many bytes are received in one turn, where the machine knows what is to come. What it wants is a good part of that:
    /// what it sends when it has got them keeps the peer busy with more than the rest.
    pub(super) fn budget(&self) -> Option<usize> {
        (self.least > 1).then(|| self.least.clamp(pace::LEAST, pace::MOST))
    }

    /// Bytes were received: the wait for them is over.
    pub(super) fn received(&mut self, bytes: usize) {
        self.until = None;
        self.came += bytes;
    }

    /// The next wait is for any byte: it is none that says how many come anyhow.
    fn any(&mut self) -> usize {
        self.came = 0;
        1
    }

    /// What the next wait is for.
    fn next(&mut self) -> usize {
        let came = std::mem::take(&mut self.came);
        if self.set <= 1 && came > 0 {
            self.anyhow = if self.anyhow == 0 { came } else { (self.anyhow * 7 + came) / 8 };
        }
        if self.spared > 0 {
            self.spared -= 1;
        } else if self.left == 0 {
            (self.spared, self.left) = (SAMPLE, TERM);
        } else if self.anyhow * GAIN <= self.least {
            self.left -= 1;
            if self.left.is_multiple_of(FORGIVEN) {
                self.penalty /= 2;
            }
            return self.least;
        }
        1
    }

    /// Has the wait been too long?
    fn is_over(&mut self, now: Time) -> bool {
        let over = self.until.take_if(|until| *until <= now).is_some();
        if over {
            self.penalty = (self.penalty * 2).clamp(SAMPLE, MOST_SPARED);
            self.spared = self.penalty;
        }
        over
    }
}

impl<E: Engine, M: Machine> Pump<E, M> {
    /// The machine wants to hear of so many bytes, or of what is there after a while.
    pub(super) fn moderate(&mut self, conn: ConnId, least: usize) {
        let Some(&mut socket) = self.names.get_mut(conn) else { return };
        let Some(Conn { low_water, .. }) = self.conns.get_mut(socket) else { return };
        low_water.least = least;
        if !self.moderated.contains(&socket) {
            self.moderated.push(socket);
        }
    }

    /// Before the pump sleeps: tells the engine what is wanted, and says how long to sleep if fewer bytes come. What the
    /// machine wants changes with each request, and costs a system call only if it is another now than at the last sleep.
    pub(super) fn moderated(&mut self, now: Time, wait: Wait, spins: bool) -> Wait {
        self.moderated.retain(|&socket| {
            let Some(Conn { low_water, .. }) = self.conns.get_mut(socket) else { return false };
            let next = if spins { low_water.any() } else { low_water.next() };
            if next != low_water.set.max(1) && !self.engine.set_low_water(socket, next) {
                return false;
            }
            low_water.set = next;
            low_water.least > 1
        });
        self.begin_patience(now);
        match (wait, self.patience_ends()) {
            (Wait::Until(time), Some(until)) => Wait::Until(time.min(until)),
            (Wait::Forever, Some(until)) => Wait::Until(until),
            (wait, _) => wait,
        }
    }

    /// Whoever turns the pump may sleep until its deadline: bytes that the engine holds back now count for that, too.
    pub(super) fn begin_patience(&mut self, now: Time) {
        for &socket in &self.moderated {
            if let Some(Conn { low_water, .. }) = self.conns.get_mut(socket)
                && low_water.set > 1
            {
                low_water.until.get_or_insert(now + PATIENCE);
            }
        }
    }

    /// When bytes are looked for on a connection where enough have not come.
    pub(super) fn patience_ends(&self) -> Option<Time> {
        let conns = self.moderated.iter().filter_map(|&socket| self.conns.get(socket));
        conns.filter_map(|conn| conn.low_water.until).min()
    }

    /// Looks for bytes on connections where enough have not come for long enough.
    pub(super) fn end_patience(&mut self, now: Time) {
        for index in 0..self.moderated.len() {
            let socket = self.moderated[index];
            if let Some(conn) = self.conns.get_mut(socket)
                && conn.low_water.is_over(now)
            {
                conn.readable = true;
                self.want_receive(socket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many waits are for many bytes, where each time that `late` says so fewer come than that.
    fn waits_for_many(waits: usize, late: impl Fn(usize) -> bool) -> usize {
        let start = Time::from_nanos(1);
        let mut low_water = LowWater { least: 64 << 10, ..LowWater::default() };
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
                assert!(low_water.is_over(start));
            }
            low_water.received(64 << 10);
        }
        many
    }

    #[test]
    fn a_peer_that_is_late_now_and_then_is_waited_for_still() {
        let many = waits_for_many(100_000, |many| many.is_multiple_of(30));
        assert!(many > 70_000, "{many} of 100,000 waits were for many bytes");
    }

    #[test]
    fn a_peer_that_is_always_late_is_hardly_waited_for() {
        let many = waits_for_many(100_000, |_| true);
        assert!((10..100).contains(&many), "{many} of 100,000 waits were for many bytes");
    }

    #[test]
    fn nothing_is_waited_for_where_as_many_bytes_come_anyhow() {
        let mut low_water = LowWater { least: 16 << 10, ..LowWater::default() };
        for _ in 0..1000 {
            low_water.set = low_water.next();
            assert_eq!(low_water.set, 1);
            low_water.received(16 << 10);
        }
    }

    #[test]
    fn a_turn_receives_what_the_machine_wants_within_bounds() {
        let budget = |least| LowWater { least, ..LowWater::default() }.budget();
        assert_eq!([0, 1].map(budget), [None; 2], "nothing is wanted");
        assert_eq!(budget(4 << 10), Some(pace::LEAST));
        assert_eq!(budget(512 << 10), Some(512 << 10));
        assert_eq!(budget(1 << 30), Some(pace::MOST));
    }
}
