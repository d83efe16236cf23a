//! Figures of one measurement.

use crate::row::Ends;
use hdrhistogram::Histogram;
use onego_engine::zero_copy::bare::Count;

/// Figures of one measurement.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Counters of the sends.
    pub count: Count,
    /// Duration in seconds.
    pub seconds: f64,
    /// CPU time.
    pub cpu_seconds: Ends,
    /// Nanoseconds from a submission to its acceptance.
    pub latency: Histogram<u64>,
}

impl Figures {
    /// Returns the bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.count.bytes as f64 / self.seconds.max(1e-9)
    }

    /// Returns the CPU seconds per 10^9 bytes.
    pub fn cpu_per_gb(&self) -> Ends {
        let each = |cpu: Option<f64>| cpu.map(|cpu| cpu * 1e9 / (self.count.bytes as f64).max(1.0));
        Ends { client: each(self.cpu_seconds.client), server: each(self.cpu_seconds.server) }
    }

    pub(super) fn cpu_of_both_ends(&self) -> f64 {
        let Ends { client, server } = self.cpu_per_gb();
        client.unwrap_or(f64::NAN) + server.unwrap_or_default()
    }

    /// Returns the share of zero-copy sends that the kernel reported as copied; `None` if there were none.
    pub fn copied(&self) -> Option<f64> {
        (self.count.reported > 0).then(|| self.count.copied as f64 / self.count.reported as f64)
    }
}
