//! Plan of a measurement.

use super::cell::{Cell, Flush, Path, Sender};
use crate::Error;
use crate::peer::Peer;
use onego_engine::zero_copy::Thresholds;
use std::time::Duration;

/// Maximum payload of UDP over IPv4; the device takes 65535 bytes with the headers.
const LARGEST_DATAGRAM: u32 = 65_507;

/// Plan of a measurement.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The paths.
    pub paths: Vec<Path>,
    /// The senders.
    pub senders: Vec<Sender>,
    /// Bytes per send on the sink; empty: the defaults.
    pub sizes: Vec<u32>,
    /// Sends per submission.
    pub batches: Vec<u32>,
    /// Flush rules of slots.
    pub flushes: Vec<Flush>,
    /// Duration of each measurement.
    pub duration: Duration,
    /// Number of measurements of each cell, alternating with the others of its size; the median counts.
    pub repeat: u32,
    /// Thresholds of the adaptive policy.
    pub thresholds: Thresholds,
    /// The other end of the paths that have one.
    pub receiver: Peer,
}

impl Plan {
    /// Returns the total duration.
    pub fn total(&self) -> Duration {
        let cells: usize =
            self.paths.iter().map(|path| self.cells(*path).iter().map(Vec::len).sum::<usize>()).sum();
        self.duration * self.repeat * u32::try_from(cells).unwrap_or(u32::MAX)
    }

    /// Fails if the plan cannot be measured.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(size) = self.sizes.iter().find(|size| **size > LARGEST_DATAGRAM)
            && self.paths.contains(&Path::Sink)
        {
            return Err(Error::Unfit(format!(
                "a datagram has {LARGEST_DATAGRAM} bytes at most, and --size has {size}: leave the sink out with --path"
            )));
        }
        Ok(())
    }

    fn sizes(&self, path: Path) -> Vec<u32> {
        match (self.sizes.is_empty(), path) {
            (false, _) => self.sizes.clone(),
            (true, Path::Sink) => vec![1500, 4096, 16_384, 65_435],
            (true, _) => [4, 16, 64, 256, 1024].map(|k| k << 10).to_vec(),
        }
    }

    /// Returns all cells of one path, grouped by size: those of one size are measured alternately.
    pub(super) fn cells(&self, path: Path) -> Vec<Vec<Cell>> {
        let of_size =
            |size| self.senders.iter().flat_map(move |sender| self.cells_of(path, *sender, size)).collect();
        self.sizes(path).into_iter().map(of_size).collect()
    }

    fn cells_of(&self, path: Path, sender: Sender, size: u32) -> Vec<Cell> {
        let cell = |batch, flush| Cell { path, sender, size, batch, flush, pieces: 1 };
        if !sender.has_batches() {
            return vec![cell(1, Flush::Request)];
        }
        let mut cells = Vec::new();
        for &batch in &self.batches {
            // A batch of one has only one flush rule.
            let both = sender.has_slots() && batch > 1;
            let flushes = if both { &self.flushes[..] } else { &[Flush::Request] };
            cells.extend(flushes.iter().map(|flush| cell(batch, *flush)));
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            paths: Path::ALL.to_vec(),
            senders: vec![Sender::Send, Sender::Fixed],
            sizes: Vec::new(),
            batches: vec![1, 8],
            flushes: Flush::ALL.to_vec(),
            duration: Duration::from_millis(20),
            repeat: 2,
            thresholds: Thresholds::default(),
            receiver: Peer { program: "none".into(), arguments: Vec::new() },
        }
    }

    #[test]
    fn senders_without_batches_or_slots_are_measured_once() {
        let cells = plan().cells(Path::Sink);
        let of_size: Vec<_> =
            cells[3].iter().map(|cell| (cell.sender.name(), cell.batch, cell.flush.name())).collect();
        let expected =
            [("send", 1, "request"), ("fixed", 1, "request"), ("fixed", 8, "request"), ("fixed", 8, "batch")];
        assert_eq!(of_size, expected);
        assert_eq!(cells[3][0].size, 65_435);
        assert_eq!(plan().total(), Duration::from_millis(20 * 2 * 4 * (4 + 5 + 5)));
    }

    #[test]
    fn oversized_datagrams_are_refused() {
        let mut plan = Plan { sizes: vec![65_536], ..plan() };
        assert!(plan.check().unwrap_err().to_string().contains("65536"));
        plan.paths = vec![Path::Loopback];
        plan.check().unwrap();
    }
}
