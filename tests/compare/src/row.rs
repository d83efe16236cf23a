//! Loads, and rows of figures in the format of `onego bench --json`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Row name of the same bytes over bare sockets.
pub(crate) const FLOOR: &str = "floor (bare sockets)";

/// Access pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) rw: &'static str,
    pub(crate) block_size: u64,
    /// Requests in flight for each job.
    pub(crate) io_depth: u32,
    pub(crate) jobs: u32,
    pub(crate) seconds: u32,
}

impl Load {
    /// Parses a list of patterns, block sizes in KiB and depths, such as `randread 4 128, read 1024 16`.
    pub(crate) fn list(loads: &'static str, seconds: u32) -> Vec<Self> {
        let parse = |load: &'static str| {
            let mut words = load.split(' ');
            let (rw, kib, io_depth) = (words.next()?, words.next()?.parse::<u64>().ok()?, words.next()?);
            Some(Self { rw, block_size: kib << 10, io_depth: io_depth.parse().ok()?, jobs: 1, seconds })
        };
        loads.split(", ").map(|load| parse(load).expect("three words")).collect()
    }

    /// Returns the options of `onego bench` and fio that select it.
    pub(crate) fn options(&self) -> String {
        let Self { rw, block_size, io_depth, jobs, seconds } = self;
        format!("--rw={rw} --bs={block_size} --iodepth={io_depth} --numjobs={jobs} --runtime={seconds}")
    }

    /// Returns a row of this load without figures.
    pub(crate) fn row(&self, who: &str, bench: &str, engine: &str, mode: &str) -> Row {
        Row {
            who: who.into(),
            bench: bench.into(),
            engine: engine.into(),
            mode: mode.into(),
            rw: self.rw.into(),
            block_size: self.block_size,
            jobs: self.jobs,
            io_depth: self.io_depth,
            ..Row::default()
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, depth {}", short_size(self.block_size), self.rw, self.io_depth)?;
        if self.jobs > 1 { write!(f, ", {} jobs", self.jobs) } else { Ok(()) }
    }
}

/// Formats a block size as fio's options do: `4k`, `1m`.
pub(crate) fn short_size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{}m", bytes >> 20) } else { format!("{}k", bytes >> 10) }
}

/// One measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Name in tables.
    #[serde(skip_deserializing)]
    pub(crate) who: String,
    /// Backing of the export of an NBD or vhost-user server.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<&'static str>,
    /// Title of the table it belongs to.
    #[serde(skip)]
    pub(crate) table: String,
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

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// A figure of client and server, where known.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Sides {
    pub(crate) client: Option<f64>,
    pub(crate) server: Option<f64>,
}

impl Row {
    /// Fills in the figures that follow from a count of requests and from CPU seconds.
    pub(crate) fn counted(self, seconds: f64, ios: u64, cpu_seconds: Sides) -> Self {
        let per_io = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e6 / ios as f64);
        Self {
            seconds,
            ios,
            iops: ios as f64 / seconds,
            bytes_per_second: (ios * self.block_size) as f64 / seconds,
            cpu_seconds,
            cpu_us_per_io: Sides { client: per_io(cpu_seconds.client), server: per_io(cpu_seconds.server) },
            ..self
        }
    }

    /// Returns whether it is the same bytes over bare sockets.
    pub(crate) fn is_floor(&self) -> bool {
        [&self.bench, &self.engine, &self.mode].iter().any(|name| name.contains("floor"))
    }
}
