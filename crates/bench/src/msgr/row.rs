//! Figures of a load.

use super::load::{EndOptions, Load};
use crate::row::{Count, Ends, Row};
use serde::{Deserialize, Serialize};

/// One measurement: a request is an I/O, `jobs` are connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MsgrRow {
    /// Fields of all benchmarks.
    #[serde(flatten)]
    pub row: Row,
    /// Fronts and data have checksums.
    pub crc: bool,
    /// Strategy of both ends before sleeping: "adaptive", "never", or microseconds of polling.
    pub spin: String,
    /// System calls per request.
    pub system_calls_per_io: Ends,
}

impl MsgrRow {
    pub(super) fn new(
        mode: &str,
        engine: &str,
        load: &Load,
        count: &Count,
        system_calls_per_io: Ends,
    ) -> Self {
        let row = Row::new("msgr", engine, mode, load.as_row(), count);
        let EndOptions { crc, spin, .. } = load.end;
        Self { row, crc, spin: spin.to_string(), system_calls_per_io }
    }
}

/// Result of a load.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Figures of the messenger.
    pub row: Option<MsgrRow>,
    /// Figures of bare sockets.
    pub floor: Option<MsgrRow>,
    /// Errors.
    pub errors: Vec<String>,
}

impl Measured {
    /// Returns all figures.
    pub fn rows(&self) -> impl Iterator<Item = &MsgrRow> {
        self.row.iter().chain(&self.floor)
    }

    /// Returns the engine, or "sockets" if only bare sockets were measured.
    pub fn engine(&self) -> &str {
        self.rows().next().map_or("", |row| &row.row.engine)
    }

    /// Returns the messenger's requests per second relative to those of bare sockets.
    pub fn share_of_floor(&self) -> Option<f64> {
        let (row, floor) = self.row.as_ref().zip(self.floor.as_ref())?;
        Some(row.row.iops / floor.row.iops)
    }
}
