//! Ratios of alternating measurements.

use serde::{Deserialize, Serialize};

/// Median of ratios measured pair by pair, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// Lower bound, with 95% confidence, of the median of arbitrarily many pairs.
    pub low: f64,
    /// Upper bound of it.
    pub high: f64,
}

/// With fewer pairs, even the range from the smallest to the largest has less than 95% confidence (2 * 0.5^6 = 3%, with
/// five 6%).
const LEAST_PAIRS: usize = 6;

impl Ratio {
    /// Computes the median and its interval from one ratio per pair. Returns `None` if there are too few.
    ///
    /// The interval is that between two order statistics, which assumes nothing about the distribution of ratios: the
    /// number of pairs below the true median is binomial with p = 1/2, approximated by a normal distribution.
    pub(super) fn of(mut ratios: Vec<f64>) -> Option<Self> {
        let n = ratios.len();
        if n < LEAST_PAIRS || ratios.iter().any(|ratio| !ratio.is_finite()) {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        // 1.96 standard deviations of sqrt(n)/2 below the middle, and one more because the distribution is discrete.
        let low = (((n as f64 - 1.96 * (n as f64).sqrt()) / 2.0) as usize).saturating_sub(1);
        let median = f64::midpoint(ratios[(n - 1) / 2], ratios[n / 2]);
        Some(Self { median, low: ratios[low], high: ratios[n - 1 - low] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_have_no_interval_and_many_a_narrow_one() {
        let ratios = |n: usize| (1..=n).map(|i| i as f64).collect::<Vec<_>>();
        assert_eq!(Ratio::of(ratios(5)), None);
        assert_eq!(Ratio::of(ratios(6)), Some(Ratio { median: 3.5, low: 1.0, high: 6.0 }));
        // The table of the binomial distribution gives the 40th and the 61st of a hundred.
        assert_eq!(Ratio::of(ratios(100)), Some(Ratio { median: 50.5, low: 40.0, high: 61.0 }));
        assert_eq!(Ratio::of(vec![f64::NAN; 10]), None);
    }
}
