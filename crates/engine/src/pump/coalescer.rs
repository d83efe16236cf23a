//! Pause before each wait to coalesce requests.

use onego_wire::Time;
use std::time::Duration;

/// Length of a pause. In a virtual machine a timer fires about 10 us late, and costs about as much CPU as one wake-up
/// by a peer. Meanwhile a client that sends requests one by one sends three to five.
pub(super) const PAUSE: Duration = Duration::from_micros(10);

/// Minimum length of a window whose cost is measured as a whole. A client follows a change of mode in negligible time
/// compared with it.
const WINDOW: Duration = Duration::from_millis(3);

/// Minimum number of waits in a window; the cost of a measurement is negligible compared with theirs.
const WAITS: u32 = 32;

/// Windows in a trial; half of them have pauses.
const TRIAL: u32 = 8;

/// Maximum CPU time per wait for a trial. Pauses save at most wake-ups, and a wake-up costs less than an eighth of
/// this.
const MOST_WORK: Duration = Duration::from_micros(40);

/// Windows between a trial and the next, as long as outcomes differ.
const FIRST_TERM: u32 = 16;

/// Windows between trials after many with the same outcome: three seconds.
const LONGEST_TERM: u32 = 1 << 10;

/// A window of [`WAITS`] waits that takes longer than this is idle: there is nothing to coalesce.
const BUSY: Duration = Duration::from_millis(8);

/// Idle time that ends the pauses; the load after it counts as a new one. On a busy machine another thread may occupy
/// the processor for a few milliseconds.
const IDLE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    time: Time,
    cpu: Duration,
    moved: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    time: Duration,
    cpu: Duration,
    moved: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.cpu += other.cpu;
        self.moved += other.moved;
    }

    /// Returns whether `of` per byte is at most `numerator` / `denominator` of that of `other`.
    fn is_within(&self, numerator: u32, denominator: u32, other: &Self, of: fn(&Self) -> Duration) -> bool {
        let product = |cost: &Self, moved: u64, factor: u32| {
            of(cost).as_nanos() * u128::from(moved) * u128::from(factor)
        };
        product(self, other.moved, denominator) <= product(other, self.moved, numerator)
    }
}

/// Decides whether a wait begins with a pause, during which the pump ignores its sockets.
///
/// A client that sends many requests one by one wakes a waiting server with the first, and pays for the wake-up; the
/// server answers that request and waits again. If the server pauses to coalesce requests, as network cards do
/// (interrupt moderation), the client wakes no thread, and one receive and one send serve many requests. A client that
/// waits for each reply, though, only loses time.
///
/// A trial measures the effect of pauses: windows with and without them alternate until a window with pauses shows that
/// they do not pay. They pay if they save at least an eighth of this thread's CPU time per byte and the bytes take
/// about as long. In that case they stay on. The more trials in a row have the same outcome, the longer the time to the
/// next.
#[derive(Debug)]
pub(super) struct Coalescer {
    adaptive: bool,
    waits: u32,
    last: Sample,
    /// Outcome of the last trial: pauses pay.
    chosen: bool,
    /// Remaining windows of the trial, the odd ones with pauses. 0: no trial is running.
    trial: u32,
    /// Costs in this trial without and with pauses.
    costs: [Cost; 2],
    /// Windows left before the next trial.
    rest: u32,
    /// Windows between the last trial and the next.
    term: u32,
    /// Time since there was last something to coalesce.
    idle: Duration,
}

impl Coalescer {
    pub(super) fn new(adaptive: bool) -> Self {
        Self {
            adaptive,
            waits: 0,
            last: Sample::default(),
            chosen: false,
            trial: 0,
            costs: [Cost::default(); 2],
            rest: FIRST_TERM,
            term: FIRST_TERM,
            idle: Duration::ZERO,
        }
    }

    pub(super) fn pauses(&self) -> bool {
        if self.trial > 0 { self.trial % 2 == 1 } else { self.chosen }
    }

    /// Records the end of a wait. `moved` counts bytes since the pump began; `cpu` returns the CPU time of its thread.
    pub(super) fn waited(&mut self, time: Time, moved: u64, cpu: impl FnOnce() -> Duration) {
        if !self.adaptive {
            return;
        }
        self.waits += 1;
        if self.waits < WAITS || time.since(self.last.time) < WINDOW {
            return;
        }
        let waits = std::mem::take(&mut self.waits);
        let now = Sample { time, cpu: cpu(), moved };
        let last = std::mem::replace(&mut self.last, now);
        let (time, moved) = (now.time.since(last.time), now.moved - last.moved);
        if time > BUSY || moved == 0 {
            return self.was_idle(time);
        }
        self.idle = Duration::ZERO;
        self.was_busy(waits, Cost { time, cpu: now.cpu.saturating_sub(last.cpu), moved });
    }

    fn was_idle(&mut self, time: Duration) {
        self.idle += time;
        if self.idle >= IDLE {
            (self.chosen, self.trial) = (false, 0);
            (self.rest, self.term) = (FIRST_TERM, FIRST_TERM);
        }
    }

    fn was_busy(&mut self, waits: u32, cost: Cost) {
        if self.trial > 0 {
            let paused = self.pauses();
            self.costs[usize::from(paused)].add(cost);
            self.trial -= 1;
            let failed = paused && !self.pays();
            if failed || self.trial == 0 {
                self.conclude();
            }
            return;
        }
        self.rest = self.rest.saturating_sub(1);
        if self.rest == 0 && (self.chosen || cost.cpu <= MOST_WORK * waits) {
            (self.trial, self.costs) = (TRIAL, [Cost::default(); 2]);
        }
    }

    fn pays(&self) -> bool {
        let [without, with] = &self.costs;
        with.is_within(7, 8, without, |cost| cost.cpu) && with.is_within(17, 16, without, |cost| cost.time)
    }

    fn conclude(&mut self) {
        let pays = self.pays();
        self.term = if pays == self.chosen { (self.term * 2).min(LONGEST_TERM) } else { FIRST_TERM };
        (self.trial, self.rest) = (0, self.term);
        self.chosen = pays;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pump whose waits take given time and CPU and bring given bytes, without and with a pause.
    struct Waits {
        coalescer: Coalescer,
        now: Sample,
        paused: u32,
    }

    /// Microseconds by the clock, microseconds of CPU, bytes.
    type Each = (u64, u64, u64);

    impl Waits {
        fn new() -> Self {
            Self { coalescer: Coalescer::new(true), now: Sample::default(), paused: 0 }
        }

        fn wait(&mut self, times: u32, without: Each, with: Each) -> u32 {
            let before = self.paused;
            for _ in 0..times {
                let pauses = self.coalescer.pauses();
                self.paused += u32::from(pauses);
                let (time, cpu, bytes) = if pauses { with } else { without };
                self.now.time = self.now.time + Duration::from_micros(time);
                self.now.cpu += Duration::from_micros(cpu);
                self.now.moved += bytes;
                self.coalescer.waited(self.now.time, self.now.moved, || self.now.cpu);
            }
            self.paused - before
        }
    }

    /// Requests of 4 KiB, one by one or eight at a time.
    const ONE: Each = (7, 6, 4 << 10);
    const EIGHT: Each = (50, 25, 32 << 10);

    #[test]
    fn pauses_are_chosen_if_requests_coalesce() {
        let mut waits = Waits::new();
        waits.wait(100_000, ONE, EIGHT);
        assert!(waits.wait(100_000, ONE, EIGHT) > 95_000);
    }

    #[test]
    fn a_client_that_waits_for_each_reply_is_rarely_delayed() {
        let mut waits = Waits::new();
        let paused = waits.wait(1_000_000, (25, 13, 4 << 10), (60, 16, 4 << 10));
        assert!(paused < 2_500, "{paused} pauses");
    }

    #[test]
    fn pauses_that_slow_transfers_down_are_rejected() {
        let mut waits = Waits::new();
        let paused = waits.wait(1_000_000, (20, 18, 16 << 10), (23, 12, 16 << 10));
        assert!(paused < 20_000, "{paused} pauses");
    }

    #[test]
    fn no_trial_runs_if_a_wait_brings_much_work() {
        let mut waits = Waits::new();
        assert_eq!(waits.wait(100_000, (150, 140, 512 << 10), (180, 140, 512 << 10)), 0);
    }

    #[test]
    fn a_change_of_the_load_is_detected() {
        let mut waits = Waits::new();
        for _ in 0..3 {
            waits.wait(1_000_000, ONE, EIGHT);
            assert!(waits.wait(100_000, ONE, EIGHT) > 80_000);
            waits.wait(300_000, (25, 13, 4 << 10), (60, 16, 4 << 10));
            assert_eq!(waits.wait(1_000, (25, 13, 4 << 10), (60, 16, 4 << 10)), 0);
        }
    }

    #[test]
    fn there_are_no_pauses_without_requests_to_coalesce() {
        let mut waits = Waits::new();
        let idle = (10_000, 20, 4 << 10);
        assert_eq!(waits.wait(100_000, idle, idle), 0);
        waits.wait(100_000, ONE, EIGHT);
        waits.wait(WAITS, idle, idle);
        assert_eq!(waits.wait(100_000, idle, idle), 0);
    }

    #[test]
    fn a_disturbed_window_changes_nothing() {
        let mut waits = Waits::new();
        waits.wait(100_000, ONE, EIGHT);
        for _ in 0..1000 {
            waits.wait(97, ONE, EIGHT);
            waits.wait(1, (20_000, 25, 4 << 10), (20_000, 25, 32 << 10));
        }
        assert!(waits.wait(100_000, ONE, EIGHT) > 80_000);
    }

    #[test]
    fn pauses_need_the_adaptive_strategy() {
        let mut waits = Waits { coalescer: Coalescer::new(false), ..Waits::new() };
        assert_eq!(waits.wait(100_000, ONE, EIGHT), 0);
    }
}
