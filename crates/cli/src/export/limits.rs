//! How much clients may do a second.

use crate::size;
use onego::block::{Device, Limit, Limited, Rate};
use std::cell::RefCell;
use std::rc::Rc;
use std::str::FromStr;

/// Options that bound operations and bytes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitOptions {
    /// Most requests a second of each export, and most at once after a pause [default of BURST: those of a second]
    #[arg(long, value_name = "RATE[,BURST]")]
    limit_iops: Option<Operations>,
    /// Most bytes a second that are read and written of each export, and most at once after a pause
    #[arg(long, value_name = "RATE[,BURST]")]
    limit_bps: Option<Bytes>,
    /// The same for all exports together
    #[arg(long, value_name = "RATE[,BURST]")]
    limit_total_iops: Option<Operations>,
    /// The same for all exports together
    #[arg(long, value_name = "RATE[,BURST]")]
    limit_total_bps: Option<Bytes>,
}

/// Bounds that exports of one thread share.
type SharedLimit = Rc<RefCell<Limit>>;

/// The limits of one thread.
pub(super) struct Limits {
    options: LimitOptions,
    /// What all its devices share.
    total: Option<SharedLimit>,
}

impl LimitOptions {
    /// Is there any?
    pub(super) fn is_some(&self) -> bool {
        let Self { limit_iops, limit_bps, limit_total_iops, limit_total_bps } = self;
        limit_iops.or(*limit_total_iops).is_some() || limit_bps.or(*limit_total_bps).is_some()
    }
}

fn limit(operations: Option<Operations>, bytes: Option<Bytes>) -> Option<SharedLimit> {
    let is_some = operations.is_some() || bytes.is_some();
    is_some.then(|| Limit::new(operations.map(|rate| rate.0), bytes.map(|rate| rate.0)))
}

impl Limits {
    pub(super) fn new(options: LimitOptions) -> Self {
        Self { options, total: limit(options.limit_total_iops, options.limit_total_bps) }
    }

    /// The device with what bounds it.
    pub(super) fn bound(&self, device: Rc<dyn Device>) -> Rc<dyn Device> {
        let own = limit(self.options.limit_iops, self.options.limit_bps);
        // What waits for its own turn takes nothing of what all share.
        self.total.iter().cloned().chain(own).fold(device, |device, limit| {
            let limited: Rc<dyn Device> = Rc::new(Limited::new(device, limit));
            limited
        })
    }
}

/// Operations a second.
#[derive(Debug, Clone, Copy)]
struct Operations(Rate);

/// Bytes a second.
#[derive(Debug, Clone, Copy)]
struct Bytes(Rate);

impl FromStr for Operations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        rate(text, size::count).map(Self)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        rate(text, size::bytes).map(Self)
    }
}

/// Reads `RATE[,BURST]`.
fn rate(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<Rate, String> {
    let (per_second, burst) = match text.split_once(',') {
        Some((per_second, burst)) => (number(per_second)?, number(burst)?),
        None => (number(text)?, number(text)?),
    };
    if per_second == 0 || burst == 0 {
        return Err(format!("{text:?} lets nothing through: write RATE or RATE,BURST, both at least 1"));
    }
    Ok(Rate { per_second, burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_a_burst() {
        let operations =
            |text: &str| text.parse::<Operations>().map(|rate| (rate.0.per_second, rate.0.burst));
        let bytes = |text: &str| text.parse::<Bytes>().map(|rate| (rate.0.per_second, rate.0.burst));
        assert_eq!(operations("1000"), Ok((1000, 1000)));
        assert_eq!(operations("1000,5000"), Ok((1000, 5000)));
        assert_eq!(operations("10k,1M"), Ok((10_000, 1_000_000)));
        assert_eq!(bytes("100M,1G"), Ok((100 << 20, 1 << 30)));
        for text in ["", "0", "1000,0", "1000,", "fast", "1,2,3"] {
            assert!(operations(text).is_err() && bytes(text).is_err(), "{text}");
        }
    }
}
