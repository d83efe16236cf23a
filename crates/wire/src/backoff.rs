use std::time::Duration;

/// Exponential backoff: the delay before a retry doubles with each failure up to a maximum.
///
/// The caller passes in randomness, which takes up to half off each delay, so that clients that failed together do not
/// all retry at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff with delays from `first` to `max`.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0 }
    }

    /// Counts a failure. Returns the delay before the next attempt. `random` is any number.
    #[must_use]
    pub fn fail(&mut self, random: u64) -> Duration {
        let whole = self.first.saturating_mul(1 << self.failures.min(30)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        let spread = u64::try_from((whole - half).as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(random.checked_rem(spread.saturating_add(1)).unwrap_or(0))
    }

    /// Resets the backoff after a success.
    #[inline]
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of failures since the last success.
    #[inline]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_secs(15);

    #[test]
    fn delays_double_up_to_the_maximum_and_restart_after_a_success() {
        let mut backoff = Backoff::new(FIRST, MAX);
        let mut whole = FIRST;
        for n in 0..100_u64 {
            let wait = backoff.fail(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert!(whole / 2 <= wait && wait <= whole, "{wait:?} of {whole:?}");
            whole = (whole * 2).min(MAX);
        }
        assert_eq!(backoff.failures(), 100);
        backoff.reset();
        assert!(backoff.fail(u64::MAX) <= FIRST);
    }

    #[test]
    fn randomness_spreads_the_delays() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..100).map(|n| Backoff::new(FIRST, MAX).fail(n * 12_345)).collect();
        assert!(waits.len() > 90, "{}", waits.len());
    }

    #[test]
    fn zero_and_maximum_delays_do_not_overflow() {
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).fail(7), Duration::ZERO);
        assert!(Backoff::new(Duration::MAX, Duration::MAX).fail(u64::MAX) >= Duration::MAX / 2);
    }
}
