//! How one thing compares with another that was measured in turns with it.

use serde::{Deserialize, Serialize};

/// The median of ratios that were taken pair by pair, and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// With 95% confidence the median of arbitrarily many pairs is not below this.
    pub low: f64,
    /// Nor above this.
    pub high: f64,
}

/// With fewer pairs, even the smallest and the largest say less than 95% (2 * 0.5^6 = 3%, with five 6%).
const LEAST_PAIRS: usize = 6;

impl Ratio {
    /// Of one ratio a pair; `None`: too few for a statement.
    ///
    /// The interval is that between two order statistics, which supposes nothing about how ratios are distributed: the
    /// number of pairs below the true median is binomial with p = 1/2, and is taken as normal.
    pub(super) fn of(mut ratios: Vec<f64>) -> Option<Self> {
        let n = ratios.len();
        if n < LEAST_PAIRS || ratios.iter().any(|ratio| !ratio.is_finite()) {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        // 1.96 standard deviations of sqrt(n)/2 below the middle, and one more for the steps of the distribution.
        let low = (((n as f64 - 1.96 * (n as f64).sqrt()) / 2.0) as usize).saturating_sub(1);
        let median = f64::midpoint(ratios[(n - 1) / 2], ratios[n / 2]);
        Some(Self { median, low: ratios[low], high: ratios[n - 1 - low] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_say_nothing_and_many_say_more() {
        let ratios = |n: usize| (1..=n).map(|i| i as f64).collect::<Vec<_>>();
        assert_eq!(Ratio::of(ratios(5)), None);
        assert_eq!(Ratio::of(ratios(6)), Some(Ratio { median: 3.5, low: 1.0, high: 6.0 }));
        // The table of the binomial distribution says the 40th and the 61st of a hundred.
        assert_eq!(Ratio::of(ratios(100)), Some(Ratio { median: 50.5, low: 40.0, high: 61.0 }));
        assert_eq!(Ratio::of(vec![f64::NAN; 10]), None);
    }
}
