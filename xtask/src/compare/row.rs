//! One measurement, in the form that every benchmark of the project writes.

use super::load::Load;
use serde::{Deserialize, Serialize};

/// A row, whose it is, and under which load it was taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Taken {
    pub(super) who: String,
    #[serde(skip)]
    pub(super) load: Load,
    #[serde(flatten)]
    pub(super) row: Row,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) bench: String,
    pub(super) engine: String,
    pub(super) mode: String,
    pub(super) rw: String,
    pub(super) block_size: u64,
    pub(super) jobs: u32,
    pub(super) io_depth: u32,
    pub(super) seconds: f64,
    pub(super) ios: u64,
    pub(super) errors: u64,
    pub(super) iops: f64,
    pub(super) bytes_per_second: f64,
    pub(super) latency_us: Latency,
    pub(super) cpu_seconds: Sides,
    pub(super) cpu_us_per_io: Sides,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// A figure of both ends, where it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sides {
    pub(super) client: Option<f64>,
    pub(super) server: Option<f64>,
}

impl Row {
    /// CPU microseconds an I/O, client and server together.
    pub(super) fn cpu_us_per_io(&self) -> Option<f64> {
        Some(self.cpu_us_per_io.client? + self.cpu_us_per_io.server?)
    }

    /// Is it the same bytes over bare sockets?
    pub(super) fn is_floor(&self) -> bool {
        [&self.bench, &self.engine, &self.mode].iter().any(|name| name.contains("floor"))
    }
}
