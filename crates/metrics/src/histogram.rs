//! Latency histograms with fixed buckets, so that they can be merged.

use crate::counter::Counter;
use std::time::Duration;

/// Log2 of the first bucket's bound in nanoseconds: 1.024 µs. Shorter latencies are not distinguished.
const FIRST: u32 = 10;

/// Log2 of the last finite bound in nanoseconds: 17.2 s.
const LAST: u32 = 34;

/// Number of buckets, including the unbounded last one. There are two per power of two, which limits the error of
/// quantiles to less than half.
pub const BUCKETS: usize = 2 * (LAST - FIRST) as usize + 2;

/// A latency histogram. It has a single owner, like a [`Counter`].
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { Counter::new() }; BUCKETS], sum: Counter::new() }
    }
}

/// Returns the bucket of a latency: the first whose bound it does not exceed.
#[inline]
fn bucket(nanos: u64) -> usize {
    // Bounds are inclusive, as in Prometheus.
    let below = nanos.saturating_sub(1);
    let power = 63 - (below | 1).leading_zeros();
    if power < FIRST {
        return 0;
    }
    let half = (below >> (power - 1)) & 1;
    (1 + 2 * (power - FIRST) as usize + half as usize).min(BUCKETS - 1)
}

/// Returns the bound of a bucket in nanoseconds; the last bucket has none.
fn end(bucket: usize) -> Option<u64> {
    let power = FIRST + (bucket as u32).div_ceil(2);
    match bucket {
        0 => Some(1 << FIRST),
        _ if bucket == BUCKETS - 1 => None,
        // The first of two buckets ends halfway between powers of two.
        _ if bucket % 2 == 1 => Some((1 << (power - 1)) + (1 << (power - 2))),
        _ => Some(1 << power),
    }
}

impl Histogram {
    /// Records a latency. Only the owner may call this.
    #[inline]
    pub fn record(&self, took: Duration) {
        let nanos = took.as_secs().wrapping_mul(1_000_000_000).wrapping_add(took.subsec_nanos().into());
        self.buckets[bucket(nanos)].add(1);
        self.sum.add(nanos);
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = [0; BUCKETS];
        buckets.iter_mut().zip(&self.buckets).for_each(|(count, counter)| *count = counter.get());
        HistogramSnapshot { buckets, sum: Duration::from_nanos(self.sum.get()) }
    }
}

/// The counts of a histogram at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Count per bucket, not cumulative.
    buckets: [u64; BUCKETS],
    sum: Duration,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: Duration::ZERO }
    }
}

impl HistogramSnapshot {
    /// Returns the number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all latencies.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns the mean latency, or `None` without any.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        let nanos = self.sum.as_nanos().checked_div(count.into())?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Returns each bucket's bound with its cumulative count; the last bucket is unbounded and counts everything.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        self.buckets.iter().enumerate().scan(0, |sum, (at, count)| {
            *sum += count;
            Some((end(at).map(Duration::from_nanos), *sum))
        })
    }

    /// Returns the upper bound of the bucket that contains the given quantile (0 to 1), which exceeds the true value by
    /// at most half. The last bucket yields the bound of the one before it. Returns `None` without any latencies.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let (end, _) = self.cumulative().find(|(_, below)| *below >= rank)?;
        Some(end.unwrap_or(Duration::from_nanos(1 << LAST)))
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_go_to_the_first_bucket_whose_bound_they_do_not_exceed() {
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
    fn histograms_can_be_merged() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_micros(3));
        other.record(Duration::from_secs(100));
        let mut both = one.snapshot();
        both.merge(&other.snapshot());
        assert_eq!((both.count(), both.sum()), (2, Duration::from_secs(100) + Duration::from_micros(3)));
        assert_eq!(both.cumulative().last(), Some((None, 2)));
    }
}
