use super::bed::DeviceKind;
use super::callers::{CallersLoad, Counted};
use super::way::Way;
use crate::row::{self, Ends, Load};
use serde::{Deserialize, Serialize};

/// One figure with its parameters: the fields of all benchmarks, and those of this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockRow {
    /// `mode` is the way; `jobs` callers with `io_depth` I/Os in a batch.
    #[serde(flatten)]
    pub row: row::Row,
    /// The device.
    pub device: String,
    /// Requested bytes per second; absent: unlimited.
    pub rate: Option<u64>,
    /// Number of measurements, of which this is the median by CPU time per I/O.
    pub repeat: usize,
    /// CPU seconds per second.
    pub cpu_share: Ends,
    /// Requests to the device per I/O.
    pub requests_per_io: f64,
}

impl BlockRow {
    pub(super) fn new(
        device: DeviceKind,
        engine: &str,
        load: &CallersLoad,
        way: Way,
        counted: &Counted,
    ) -> Self {
        let CallersLoad { rw, block_size, callers, batch, rate } = *load;
        let count = &counted.count;
        let load = Load { rw, block_size, jobs: callers, io_depth: batch };
        let share = |cpu: Option<f64>| cpu.map(|cpu| cpu / count.seconds.max(1e-9));
        let Ends { client, server } = count.cpu_seconds;
        Self {
            row: row::Row::new("block", engine, way.name(), load, count),
            device: device.name().to_owned(),
            rate,
            repeat: 1,
            cpu_share: Ends { client: share(client), server: share(server) },
            requests_per_io: counted.requests as f64 / count.ios.max(1) as f64,
        }
    }

    pub(super) fn median(mut rows: Vec<Self>) -> Option<Self> {
        let repeat = rows.len();
        rows.sort_by(|a, b| a.cpu_us_per_io().total_cmp(&b.cpu_us_per_io()));
        rows.into_iter().nth(repeat / 2).map(|row| Self { repeat, ..row })
    }

    pub(super) fn cpu_us_per_io(&self) -> f64 {
        let Ends { client, server } = self.row.cpu_us_per_io;
        client.unwrap_or(0.0) + server.unwrap_or(0.0)
    }
}
