//! Polling for a while before a sleep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Strategy of a pump before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spin {
    /// Polls as long as polling costs less CPU time than sleeping, and pauses to coalesce requests where that costs
    /// even less, as measured on this machine and with these peers.
    #[default]
    Adaptive,
    /// Sleeps immediately.
    Never,
    /// Polls for this time before each sleep. Buys a little latency for a lot of CPU time.
    For(Duration),
}

impl fmt::Display for Spin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.write_str("adaptive"),
            Self::Never => f.write_str("never"),
            Self::For(time) => write!(f, "{}", time.as_micros()),
        }
    }
}

const LONGEST: Duration = Duration::from_secs(1);

/// Error of a text other than "adaptive", "never" or a number of microseconds up to a second.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is none of \"adaptive\", \"never\" and a number of microseconds up to 1000000")]
pub struct BadSpin(String);

impl FromStr for Spin {
    type Err = BadSpin;

    fn from_str(text: &str) -> Result<Self, BadSpin> {
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "never" => Ok(Self::Never),
            _ => {
                let time = text.parse().ok().map(Duration::from_micros).filter(|time| *time <= LONGEST);
                time.map(Self::For).ok_or_else(|| BadSpin(text.to_owned()))
            }
        }
    }
}

/// Sleeps before the first trial. They measure the cost of a sleep and the bytes it brings.
const FIRST: u32 = 32;

/// After that, one sleep in 16 is measured.
const SAMPLE: u32 = 16;

/// Trial budget in costs of a sleep: a trial ends once spinning has wasted that much. Long enough for the trials of
/// both sides to overlap: as long as the peer sleeps, spinning gains little.
const TRIAL: i64 = 64;

/// Sleeps between the end of a trial and the next trial.
const TERM: u32 = 1 << 10;

/// Limit of a spin in costs of a sleep: the time that a peer takes to wake up and answer.
const LIMIT: u32 = 2;

/// Limit, in sleeps, on what the bytes after one spin count for. What a sleep brings is measured rarely, so the figure
/// may be too low.
const BURST: i64 = 4;

/// A spin costs one turn of the pump more than a sleep. Eight turns cost as much as one sleep.
const TURN: i64 = 8;

/// Spins in a row before a forced sleep, which measures again what a sleep brings.
const STREAK: u32 = 1 << 8;

/// Decides whether to poll for the next bytes or to sleep until they arrive.
///
/// A sleep costs CPU time on this side and on the peer that ends it, about the same on each (10 us in a virtual
/// machine). Polling is cheaper for bytes that arrive sooner, and avoids the delay of a wake-up. But more bytes arrive
/// during a sleep, so one sleep may bring as much as many spins.
///
/// The spinner therefore keeps an account. Each spin earns the cost of the sleeps that would have brought the same
/// bytes, and pays for its time and for one turn. Once spinning has wasted the cost of [`TRIAL`] sleeps, it is disabled
/// for the next [`TERM`] sleeps.
#[derive(Debug)]
pub(super) struct Spinner {
    spin: Spin,
    /// Running average of the CPU time of one sleep on both sides, in nanoseconds.
    cost: i64,
    /// Running average of the bytes moved between a sleep and the next wait.
    worth: i64,
    /// Balance of the trial in nanoseconds: its remaining budget including its gains.
    account: i64,
    /// Sleeps left before the next trial. 0: a trial is running.
    rest: u32,
    /// Spins since the last sleep.
    streak: u32,
    last: End,
    moved: u64,
}

/// Reason why a wait ended that found no event at its start.
#[derive(Debug, Clone, Copy)]
enum End {
    Slept,
    Won(i64),
    Paused,
}

impl Spinner {
    pub(super) fn new(spin: Spin) -> Self {
        Self { spin, cost: 0, worth: 0, account: 0, rest: FIRST, streak: 0, last: End::Won(0), moved: 0 }
    }

    pub(super) fn spins(&self) -> bool {
        !self.most().is_zero()
    }

    pub(super) fn most(&self) -> Duration {
        match self.spin {
            Spin::For(time) => time,
            Spin::Adaptive if self.rest == 0 && self.streak < STREAK => {
                Duration::from_nanos(self.cost.unsigned_abs()) * LIMIT
            }
            _ => Duration::ZERO,
        }
    }

    /// Records a spin of length `spent` that found an event. `moved` counts bytes since the pump began.
    pub(super) fn won(&mut self, spent: Duration, moved: u64) {
        self.streak += 1;
        self.waited(End::Won(nanos(spent)), moved);
    }

    pub(super) fn lost(&mut self, spent: Duration) {
        self.credit(-nanos(spent));
    }

    pub(super) fn measures(&self) -> bool {
        self.spin == Spin::Adaptive && (self.rest.is_multiple_of(SAMPLE) || self.cost == 0)
    }

    /// Records a sleep. `cpu`: CPU time of the pump's thread, if measured. `moved` counts bytes since the pump began.
    pub(super) fn slept(&mut self, cpu: Option<Duration>, moved: u64) {
        self.streak = 0;
        self.waited(End::Slept, moved);
        if let Some(cpu) = cpu {
            // The peer's share is unknown here; assume the same.
            self.cost = averaged(self.cost, 2 * nanos(cpu));
        }
        if self.rest > 0 {
            self.rest -= 1;
            self.account = TRIAL * self.cost;
        }
    }

    pub(super) fn paused(&mut self, moved: u64) {
        self.waited(End::Paused, moved);
    }

    fn waited(&mut self, end: End, moved: u64) {
        let bytes = number(moved - std::mem::replace(&mut self.moved, moved));
        match std::mem::replace(&mut self.last, end) {
            End::Paused => {}
            End::Slept => self.worth = averaged(self.worth, bytes),
            // Watched descriptors and threads that wake each other move no bytes.
            End::Won(spent) if self.worth == 0 => self.credit(self.cost - spent),
            End::Won(spent) => {
                let sleeps = self.cost * bytes.min(BURST * self.worth) / self.worth;
                self.credit(sleeps - spent - self.cost / TURN);
            }
        }
    }

    fn credit(&mut self, gain: i64) {
        self.account = (self.account + gain).min(TRIAL * self.cost);
        if self.account < 0 {
            self.rest = TERM;
        }
    }
}

fn averaged(average: i64, sample: i64) -> i64 {
    if average == 0 { sample } else { (7 * average + sample) / 8 }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    /// A thread whose sleeps cost it 10 us each and bring a given number of bytes.
    struct Thread {
        spinner: Spinner,
        moved: u64,
        sleep_brings: u64,
        spins: u32,
        sleeps: u32,
    }

    impl Thread {
        fn new(sleep_brings: u64) -> Self {
            Self { spinner: Spinner::new(Spin::Adaptive), moved: 0, sleep_brings, spins: 0, sleeps: 0 }
        }

        fn wait(&mut self, micros: u32, brings: u64) {
            let (after, most) = (MICRO * micros, self.spinner.most());
            if after < most {
                self.spins += 1;
                self.spinner.won(after, self.moved);
                self.moved += brings;
                return;
            }
            if !most.is_zero() {
                self.spinner.lost(most);
            }
            self.sleeps += 1;
            let cpu = self.spinner.measures().then_some(MICRO * 10);
            self.spinner.slept(cpu, self.moved);
            self.moved += self.sleep_brings;
        }
    }

    #[test]
    fn early_events_are_polled_for() {
        let mut thread = Thread::new(4096);
        (0..100_000).for_each(|_| thread.wait(8, 4096));
        assert!(thread.spins > 99_000, "{} spins", thread.spins);
    }

    #[test]
    fn late_events_are_slept_for() {
        let mut thread = Thread::new(4096);
        (0..100_000).for_each(|_| thread.wait(100, 4096));
        assert_eq!(thread.sleeps, 100_000);
        // Each spin in vain lasts 40 us; a trial costs 64 sleeps of 20 us.
        assert!(thread.spinner.rest > 0);
    }

    #[test]
    fn a_stream_sleeps_if_one_sleep_brings_as_much_as_many_spins() {
        let mut thread = Thread::new(64 << 10);
        (0..100_000).for_each(|_| thread.wait(5, 4096));
        assert!(thread.sleeps > 70_000, "{} sleeps", thread.sleeps);
    }

    #[test]
    fn a_peer_that_becomes_quick_is_polled_for_and_one_that_becomes_slow_is_not() {
        let mut thread = Thread::new(4096);
        for _ in 0..3 {
            (0..10_000).for_each(|_| thread.wait(100, 4096));
            let spins = thread.spins;
            (0..10_000).for_each(|_| thread.wait(5, 4096));
            assert!(thread.spins - spins > 8_000, "{} spins", thread.spins - spins);
        }
    }

    #[test]
    fn threads_that_wake_each_other_move_no_bytes() {
        let mut thread = Thread::new(0);
        (0..100_000).for_each(|_| thread.wait(8, 0));
        assert!(thread.spins > 99_000, "{} spins", thread.spins);
    }

    #[test]
    fn the_configured_strategy_is_followed() {
        assert_eq!(Spinner::new(Spin::Never).most(), Duration::ZERO);
        assert_eq!(Spinner::new(Spin::For(MICRO * 50)).most(), MICRO * 50);
        for spin in [Spin::Adaptive, Spin::Never, Spin::For(MICRO * 50)] {
            assert_eq!(spin.to_string().parse::<Spin>().expect("the displayed form parses"), spin);
        }
        assert!("50us".parse::<Spin>().is_err());
        assert!("1000000".parse::<Spin>().is_ok() && "1000001".parse::<Spin>().is_err());
    }
}
