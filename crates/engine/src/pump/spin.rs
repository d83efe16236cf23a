//! Polling for a while before going to sleep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a pump does before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spin {
    /// It polls for as long as that has cost less CPU time than sleeping, on this machine and with these peers.
    #[default]
    Adaptive,
    /// It sleeps at once.
    Never,
    /// It polls for that long, whatever it costs: a little latency for a lot of CPU time.
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

/// A longer spin would be a mistake.
const LONGEST: Duration = Duration::from_secs(1);

/// The text is none of "adaptive", "never" and a number of microseconds, up to a second.
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

/// Sleeps at the beginning, to see what a sleep costs and brings.
const FIRST: u32 = 32;

/// Of so many sleeps later one is measured.
const SAMPLE: u32 = 16;

/// So many times what a sleep costs may be lost before the pump sleeps again. Enough that a peer whose trial begins somewhat
/// later meets this one: for two who sleep, the first who does not wins little.
const TRIAL: i64 = 64;

/// Sleeps until the next trial.
const TERM: u32 = 1 << 10;

/// A spin lasts for so many times what a sleep costs at the most: as long as a peer takes that has to wake up first.
const LIMIT: u32 = 2;

/// What comes after one spin is worth so many sleeps at the most: how much a sleep brings is not seen often.
const BURST: i64 = 4;

/// A sleep costs as much as so many turns, of which each spin takes one more.
const TURN: i64 = 8;

/// Spins in a row before a sleep, to see what it brings now.
const STREAK: u32 = 1 << 8;

/// When to poll for what comes rather than to sleep until it is there.
///
/// A sleep costs CPU time of this side and of the peer that ends it, about as much of each (in a virtual machine 10 us). What
/// comes sooner than that is cheaper to poll for, and it is taken at once, not after the time that waking up takes. But if
/// more comes meanwhile, one sleep brings what takes many spins. So an account is kept of what is won: the sleeps that would
/// have brought the same bytes, less the time spent and a turn for each spin. When all is lost that a trial may lose, the pump
/// sleeps for a term.
#[derive(Debug)]
pub(super) struct Spinner {
    spin: Spin,
    /// CPU time of one sleep, of both sides, in nanoseconds.
    cost: i64,
    /// Bytes that are moved between a sleep and the next wait, on an average.
    worth: i64,
    /// What was won, with what a trial may lose, in nanoseconds.
    account: i64,
    /// Sleeps before the next trial.
    rest: u32,
    /// Spins since the last sleep.
    streak: u32,
    /// How the last wait ended, and how many bytes had been moved by then.
    last: End,
    moved: u64,
}

/// How a wait ended that was for something that was not there yet.
#[derive(Debug, Clone, Copy)]
enum End {
    Slept,
    /// After a spin of so many nanoseconds.
    Won(i64),
}

impl Spinner {
    pub(super) fn new(spin: Spin) -> Self {
        Self { spin, cost: 0, worth: 0, account: 0, rest: FIRST, streak: 0, last: End::Won(0), moved: 0 }
    }

    /// Does the pump poll before its next sleep?
    pub(super) fn spins(&self) -> bool {
        !self.most().is_zero()
    }

    /// How long to poll before the next sleep.
    pub(super) fn most(&self) -> Duration {
        match self.spin {
            Spin::For(time) => time,
            Spin::Adaptive if self.rest == 0 && self.streak < STREAK => {
                Duration::from_nanos(self.cost.unsigned_abs()) * LIMIT
            }
            _ => Duration::ZERO,
        }
    }

    /// After a spin of that time something came that was not there when it began. So many bytes were moved till now.
    pub(super) fn won(&mut self, spent: Duration, moved: u64) {
        self.streak += 1;
        self.waited(End::Won(nanos(spent)), moved);
    }

    /// Nothing came in that time.
    pub(super) fn lost(&mut self, spent: Duration) {
        self.settle(-nanos(spent));
    }

    /// Is the CPU time of the next sleep to be measured?
    pub(super) fn measures(&self) -> bool {
        self.spin == Spin::Adaptive && (self.rest.is_multiple_of(SAMPLE) || self.cost == 0)
    }

    /// The pump has slept, for that CPU time of its thread if that was measured. So many bytes were moved till now.
    pub(super) fn slept(&mut self, cpu: Option<Duration>, moved: u64) {
        self.streak = 0;
        self.waited(End::Slept, moved);
        if let Some(cpu) = cpu {
            // What it takes of the peer's is not known here.
            self.cost = averaged(self.cost, 2 * nanos(cpu));
        }
        if self.rest > 0 {
            self.rest -= 1;
            self.account = TRIAL * self.cost;
        }
    }

    /// A wait has ended: now it is known what the one before has brought.
    fn waited(&mut self, end: End, moved: u64) {
        let bytes = number(moved - std::mem::replace(&mut self.moved, moved));
        match std::mem::replace(&mut self.last, end) {
            End::Slept => self.worth = averaged(self.worth, bytes),
            // Where no bytes are moved, a descriptor may be watched, or threads wake each other.
            End::Won(spent) if self.worth == 0 => self.settle(self.cost - spent),
            End::Won(spent) => {
                let sleeps = self.cost * bytes.min(BURST * self.worth) / self.worth;
                self.settle(sleeps - spent - self.cost / TURN);
            }
        }
    }

    fn settle(&mut self, gain: i64) {
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

    /// A thread whose sleeps cost it 10 us, and bring so many bytes.
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

        /// Something comes after so many microseconds, which brings so many bytes if it does not sleep.
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
    fn what_comes_soon_is_polled_for() {
        let mut thread = Thread::new(4096);
        (0..100_000).for_each(|_| thread.wait(8, 4096));
        assert!(thread.spins > 99_000, "{} spins", thread.spins);
    }

    #[test]
    fn what_comes_late_is_slept_for() {
        let mut thread = Thread::new(4096);
        (0..100_000).for_each(|_| thread.wait(100, 4096));
        assert_eq!(thread.sleeps, 100_000);
        // Each spin in vain lasts for 40 us, and a trial costs 64 sleeps of 20 us.
        assert!(thread.spinner.rest > 0);
    }

    #[test]
    fn a_stream_is_slept_for_where_a_sleep_brings_what_takes_many_spins() {
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
    fn it_spins_or_sleeps_as_it_is_told() {
        assert_eq!(Spinner::new(Spin::Never).most(), Duration::ZERO);
        assert_eq!(Spinner::new(Spin::For(MICRO * 50)).most(), MICRO * 50);
        for spin in [Spin::Adaptive, Spin::Never, Spin::For(MICRO * 50)] {
            assert_eq!(spin.to_string().parse::<Spin>().expect("it reads what it writes"), spin);
        }
        assert!("50us".parse::<Spin>().is_err());
        assert!("1000000".parse::<Spin>().is_ok() && "1000001".parse::<Spin>().is_err());
    }
}
