//! Measurements in human-readable form: fio's terms, their cost, and the figures of bare sockets.

use super::row::{Measured, MsgrRow};
use crate::report::table::{short_count, short_rate, short_size};
use crate::row::Ends;

const FIGURES: usize = 44;

/// Returns the heading of an engine's lines.
pub fn header(measured: &Measured) -> String {
    let Some(any) = measured.rows().next() else { return String::new() };
    let crc = if any.crc { "on" } else { "off" };
    let (engine, row) = (measured.engine(), &any.row);
    let mut lines = [
        format!("==== messenger, connections={} iodepth={} crc={crc}, {engine} ====", row.jobs, row.io_depth),
        " ".repeat(FIGURES),
        " ".repeat(FIGURES),
    ];
    if measured.row.is_some() {
        lines[1] += "     CPU usec/IO          calls/IO";
        lines[2] += "  client   server   client   server";
    }
    if measured.floor.is_some() {
        lines[1] += "     bare sockets   CPU usec/IO";
        lines[2] += &format!("{:>17}   client   server", "");
    }
    if measured.share_of_floor().is_some() {
        lines[1] += "          of the";
        lines[2] += "           floor";
    }
    lines.map(|line| line.trim_end().to_owned()).join("\n")
}

/// Formats a measurement next to that of bare sockets.
pub fn line(measured: &Measured) -> String {
    let mut line = String::new();
    if let Some(row) = &measured.row {
        line = format!(
            "{:FIGURES$}{}{}",
            figures(row),
            both(row.row.cpu_us_per_io, 2),
            both(row.system_calls_per_io, 3)
        );
    } else if let Some(floor) = &measured.floor {
        line = format!("{:FIGURES$}", figures(floor));
    }
    if let Some(floor) = &measured.floor {
        let iops = format!("IOPS={}", short_count(floor.row.iops));
        line += &format!("{iops:>17}{}", both(floor.row.cpu_us_per_io, 2));
    }
    if let Some(share) = measured.share_of_floor() {
        line += &format!("{:>15.0}%", share * 100.0);
    }
    line
}

fn figures(row: &MsgrRow) -> String {
    let row = &row.row;
    format!(
        "{:>4} IOPS={}, BW={}, Lat={:.3}ms",
        short_size(row.block_size),
        short_count(row.iops),
        short_rate(row.bytes_per_second),
        row.latency_us.mean / 1e3
    )
}

fn both(ends: Ends, digits: usize) -> String {
    let one = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    format!(" {:>8} {:>8}", one(ends.client), one(ends.server))
}
