//! One measurement, in the form that every benchmark of the project writes.

use super::Load;
use crate::interop;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Whose figure it is, as the report names it.
    #[serde(skip)]
    pub(crate) who: &'static str,
    pub(crate) bench: String,
    pub(crate) engine: String,
    pub(crate) mode: String,
    pub(crate) rw: String,
    pub(crate) block_size: u64,
    pub(crate) jobs: u32,
    pub(crate) io_depth: u32,
    pub(crate) seconds: f64,
    pub(crate) ios: u64,
    pub(crate) errors: u64,
    pub(crate) iops: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) latency_us: Latency,
    pub(crate) cpu_seconds: Sides,
    pub(crate) cpu_us_per_io: Sides,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// A figure of both ends, where it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sides {
    pub(crate) client: Option<f64>,
    pub(crate) server: Option<f64>,
}

impl Row {
    /// Is it the same bytes over bare sockets?
    pub(crate) fn is_floor(&self) -> bool {
        [&self.bench, &self.engine, &self.mode].iter().any(|name| name.contains("floor"))
    }

    /// Was it taken under this load?
    pub(crate) fn is_of(&self, load: &Load) -> bool {
        self.rw == load.rw && self.block_size == load.block_size && self.io_depth == load.io_depth
    }
}

/// Reads the rows that a benchmark wrote.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>> {
    interop::read_rows(path)
}
