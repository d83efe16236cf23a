//! Latencies by buckets that are the same everywhere, so that histograms can be added.

use crate::counter::Counter;
use std::time::Duration;

/// The end of the first bucket is 2 to the power of this, in nanoseconds: 1.024 µs. What is faster is not told apart.
const FIRST: u32 = 10;

/// The end of the last bucket but the one for everything else: 17.2 s.
const LAST: u32 = 34;

/// Buckets, with the last one, which has no end. There are two for each power of two, so that a quantile that is read from them
/// is off by less than half.
pub const BUCKETS: usize = 2 * (LAST - FIRST) as usize + 2;

/// How often something took how long. It has one owner, as a [`Counter`] has.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    /// Nanoseconds.
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { Counter::new() }; BUCKETS], sum: Counter::new() }
    }
}

/// The bucket of a latency: the first whose end it does not exceed.
#[inline]
fn bucket(nanos: u64) -> usize {
    // The ends belong to their buckets, as Prometheus has it.
    let below = nanos.saturating_sub(1);
    let power = 63 - (below | 1).leading_zeros();
    if power < FIRST {
        return 0;
    }
    let half = (below >> (power - 1)) & 1;
    (1 + 2 * (power - FIRST) as usize + half as usize).min(BUCKETS - 1)
}

/// The end of a bucket in nanoseconds; the last has none.
fn end(bucket: usize) -> Option<u64> {
    let power = FIRST + (bucket as u32).div_ceil(2);
    match bucket {
        0 => Some(1 << FIRST),
        _ if bucket == BUCKETS - 1 => None,
        // The first half of a power of two ends in its middle.
        _ if bucket % 2 == 1 => Some((1 << (power - 1)) + (1 << (power - 2))),
        _ => Some(1 << power),
    }
}

impl Histogram {
    /// Counts one more that took so long. For the owner alone.
    #[inline]
    pub fn record(&self, took: Duration) {
        let nanos = took.as_secs().wrapping_mul(1_000_000_000).wrapping_add(took.subsec_nanos().into());
        self.buckets[bucket(nanos)].add(1);
        self.sum.add(nanos);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = [0; BUCKETS];
        buckets.iter_mut().zip(&self.buckets).for_each(|(count, counter)| *count = counter.get());
        HistogramSnapshot { buckets, sum: Duration::from_nanos(self.sum.get()) }
    }
}

/// What a histogram has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// How many are in each bucket alone.
    buckets: [u64; BUCKETS],
    sum: Duration,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: Duration::ZERO }
    }
}

impl HistogramSnapshot {
    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long all of them together took.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// How long one took on average; nothing if there was none.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        let nanos = self.sum.as_nanos().checked_div(count.into())?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// The end of each bucket, and how many took at most as long; the last has no end, and all.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        self.buckets.iter().enumerate().scan(0, |sum, (at, count)| {
            *sum += count;
            Some((end(at).map(Duration::from_nanos), *sum))
        })
    }

    /// What this share of all, from 0 to 1, stayed below: the end of the bucket in which it lies, at most half too much. What
    /// lies in the last bucket is said to be the end of the one before. Nothing if there was none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let (end, _) = self.cumulative().find(|(_, below)| *below >= rank)?;
        Some(end.unwrap_or(Duration::from_nanos(1 << LAST)))
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_the_first_bucket_whose_end_it_does_not_exceed() {
        let ends: Vec<u64> = (0..BUCKETS - 1).map(|at| end(at).unwrap()).collect();
        assert!(ends.is_sorted() && end(BUCKETS - 1).is_none());
        assert_eq!((ends[0], ends[1], ends[2], ends.last().copied()), (1024, 1536, 2048, Some(1 << LAST)));
        let edges = ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
        for nanos in edges.chain([0, 1, u64::MAX]) {
            let expected = ends.iter().position(|end| nanos <= *end).unwrap_or(BUCKETS - 1);
            assert_eq!(bucket(nanos), expected, "{nanos}");
        }
    }

    #[test]
    fn quantiles_are_at_most_half_too_large() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let seen = histogram.snapshot();
        assert_eq!((seen.count(), seen.sum()), (1000, Duration::from_micros(500_500)));
        assert_eq!(seen.mean(), Some(Duration::from_nanos(500_500)));
        for (share, micros) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = seen.quantile(share).unwrap().as_secs_f64() * 1e6;
            assert!((micros..=micros * 1.5).contains(&found), "{share}: {found} µs");
        }
        assert_eq!(HistogramSnapshot::default().quantile(0.5), None);
        assert_eq!(HistogramSnapshot::default().mean(), None);
    }

    #[test]
    fn histograms_add_up() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_micros(3));
        other.record(Duration::from_secs(100));
        let mut both = one.snapshot();
        both.merge(&other.snapshot());
        assert_eq!((both.count(), both.sum()), (2, Duration::from_secs(100) + Duration::from_micros(3)));
        assert_eq!(both.cumulative().last(), Some((None, 2)));
    }
}
