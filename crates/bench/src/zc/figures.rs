//! What one measurement gave.

use crate::row::Ends;
use hdrhistogram::Histogram;
use onego_engine::zero_copy::bare::Count;

/// What one measurement gave.
#[derive(Debug, Clone)]
pub struct Figures {
    /// What was sent.
    pub count: Count,
    /// In how many seconds.
    pub seconds: f64,
    /// CPU time.
    pub cpu_seconds: Ends,
    /// Of a submission, until it was accepted; nanoseconds.
    pub latency: Histogram<u64>,
}

impl Figures {
    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.count.bytes as f64 / self.seconds.max(1e-9)
    }

    /// CPU seconds for 10^9 bytes.
    pub fn cpu_per_gb(&self) -> Ends {
        let each = |cpu: Option<f64>| cpu.map(|cpu| cpu * 1e9 / (self.count.bytes as f64).max(1.0));
        Ends { client: each(self.cpu_seconds.client), server: each(self.cpu_seconds.server) }
    }

    /// The same of both ends together; of this one where there is no other.
    pub(super) fn cpu_of_both_ends(&self) -> f64 {
        let Ends { client, server } = self.cpu_per_gb();
        client.unwrap_or(f64::NAN) + server.unwrap_or_default()
    }

    /// The share of sends without a copy that the kernel reported as copied; `None`: there were none.
    pub fn copied(&self) -> Option<f64> {
        (self.count.reported > 0).then(|| self.count.copied as f64 / self.count.reported as f64)
    }
}
