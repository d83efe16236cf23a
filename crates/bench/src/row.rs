//! One measurement in machine-readable form.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Kind and order of accesses; the names are those of fio, and for files those of iozone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Pattern {
    RandRead,
    RandWrite,
    Read,
    Write,
    RandRw,
    Rewrite,
    Reread,
}

impl Pattern {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRw => "randrw",
            Self::Rewrite => "rewrite",
            Self::Reread => "reread",
        }
    }

    /// Returns whether offsets are random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// Returns whether the pattern writes.
    pub fn writes(self) -> bool {
        !matches!(self, Self::RandRead | Self::Read | Self::Reread)
    }
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use Pattern::{RandRead, RandRw, RandWrite, Read, Reread, Rewrite, Write};
        [RandRead, RandWrite, Read, Write, RandRw, Rewrite, Reread]
            .into_iter()
            .find(|pattern| pattern.name() == text)
            .ok_or_else(|| {
                format!("{text:?} is none of randread, randwrite, read, write, randrw, rewrite, reread")
            })
    }
}

/// Latency of requests in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Latency {
    /// Summarizes a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean: histogram.mean() / 1e3,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

/// A figure for both ends, where known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Ends {
    pub client: Option<f64>,
    pub server: Option<f64>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The benchmark.
    pub bench: String,
    /// The engine that moved the bytes.
    pub engine: String,
    /// Mode: "onego", "floor".
    pub mode: String,
    /// The pattern.
    pub rw: Pattern,
    /// Bytes per request.
    pub block_size: u64,
    /// Number of clients.
    pub jobs: u32,
    /// Requests in flight per client.
    pub io_depth: u32,
    /// Duration in seconds.
    pub seconds: f64,
    /// Completed requests.
    pub ios: u64,
    /// Failed requests, and blocks with wrong bytes.
    pub errors: u64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Latency.
    pub latency_us: Latency,
    /// CPU time.
    pub cpu_seconds: Ends,
    /// CPU time per request in microseconds.
    pub cpu_us_per_io: Ends,
}

/// Counters of a measurement.
#[derive(Debug, Clone)]
pub struct Count {
    /// Completed requests.
    pub ios: u64,
    /// Failed requests, and blocks with wrong bytes.
    pub errors: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// CPU time.
    pub cpu_seconds: Ends,
}

/// Parameters of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The pattern.
    pub rw: Pattern,
    /// Bytes per request.
    pub block_size: u64,
    /// Number of clients.
    pub jobs: u32,
    /// Requests in flight per client.
    pub io_depth: u32,
}

impl Row {
    /// Creates the row of a measured load.
    pub fn new(bench: &str, engine: &str, mode: &str, load: Load, count: &Count) -> Self {
        let seconds = count.seconds.max(1e-9);
        let iops = count.ios as f64 / seconds;
        let each = |cpu: Option<f64>| cpu.filter(|_| count.ios > 0).map(|cpu| cpu * 1e6 / count.ios as f64);
        Self {
            bench: bench.to_owned(),
            engine: engine.to_owned(),
            mode: mode.to_owned(),
            rw: load.rw,
            block_size: load.block_size,
            jobs: load.jobs,
            io_depth: load.io_depth,
            seconds: count.seconds,
            ios: count.ios,
            errors: count.errors,
            iops,
            bytes_per_second: iops * load.block_size as f64,
            latency_us: Latency::of(&count.latency),
            cpu_seconds: count.cpu_seconds,
            cpu_us_per_io: Ends {
                client: each(count.cpu_seconds.client),
                server: each(count.cpu_seconds.server),
            },
        }
    }
}

/// Returns a histogram of nanoseconds: three significant digits, up to a minute.
pub fn latency_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_fields_that_programs_expect() {
        let mut latency = latency_histogram();
        latency.record(2000).unwrap();
        let load = Load { rw: Pattern::RandRead, block_size: 4096, jobs: 1, io_depth: 128 };
        let cpu_seconds = Ends { client: Some(0.5), server: None };
        let count = Count { ios: 1000, errors: 0, seconds: 2.0, latency, cpu_seconds };
        let json = serde_json::to_value(Row::new("rbd", "epoll", "onego", load, &count)).unwrap();
        assert_eq!(json["rw"], "randread");
        assert_eq!(json["iops"], 500.0);
        assert_eq!(json["bytes_per_second"], 2_048_000.0);
        assert_eq!(json["cpu_us_per_io"], serde_json::json!({"client": 500.0, "server": null}));
        assert!((json["latency_us"]["p50"].as_f64().unwrap() - 2.0).abs() < 0.01);
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys.len(), 15, "{keys:?}");
    }
}
