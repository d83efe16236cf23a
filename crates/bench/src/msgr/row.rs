//! The figures of a load.

use super::load::{EndOptions, Load};
use crate::row::{Count, Ends, Row};
use serde::{Deserialize, Serialize};

/// One measurement: a request is an I/O, `jobs` are connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MsgrRow {
    /// What every benchmark's rows have.
    #[serde(flatten)]
    pub row: Row,
    /// Were there checksums of fronts and data?
    pub crc: bool,
    /// What each end did before it slept: "adaptive", "never", or microseconds of polling.
    pub spin: String,
    /// System calls a request.
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

/// What came of a load.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The figures of the messenger.
    pub row: Option<MsgrRow>,
    /// Those of bare sockets.
    pub floor: Option<MsgrRow>,
    /// What went wrong.
    pub errors: Vec<String>,
}

impl Measured {
    /// All figures.
    pub fn rows(&self) -> impl Iterator<Item = &MsgrRow> {
        self.row.iter().chain(&self.floor)
    }

    /// What moved the bytes: an engine, unless bare sockets were measured alone.
    pub fn engine(&self) -> &str {
        self.rows().next().map_or("", |row| &row.row.engine)
    }

    /// Requests a second, beside those of bare sockets.
    pub fn share_of_floor(&self) -> Option<f64> {
        let (row, floor) = self.row.as_ref().zip(self.floor.as_ref())?;
        Some(row.row.iops / floor.row.iops)
    }
}
