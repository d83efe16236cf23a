//! Rows of figures in human-readable form.

use super::bed::DeviceKind;
use super::row::BlockRow;
use super::way::Way;
use crate::report::picture::{self, Panel, Point, Series};
use crate::report::table::{short_count, short_size};
use crate::row::Ends;

/// Returns the heading of the rows with the same device, pattern, size and number of callers.
pub fn header(row: &BlockRow) -> String {
    let common = &row.row;
    let title = format!("==== {}, {} of {}", row.device, common.rw.name(), short_size(common.block_size));
    let title = match common.io_depth {
        1 => format!("{title} ===="),
        batch if common.jobs == 1 => format!("{title}, 1 caller, batches of {batch} ===="),
        batch => format!("{title}, {} callers, batches of {batch} ====", common.jobs),
    };
    let ends = ["client", "server"].map(|end| format!("{end:>8}")).concat();
    format!(
        "{title}\n{:28}{:>9}{:>9}   {:>16} {:>16} {:>11}{:>13}\n{:28}{:>9}{:>9}   {ends} {ends} {:>11}{:>13}",
        "",
        "",
        "",
        "CPU, %",
        "CPU usec/IO",
        "requests",
        "CPU, IOPS",
        "",
        "IOPS",
        "MB/s",
        "an I/O",
        "to the first"
    )
}

/// Formats a row, compared with the first of its load that uses a device.
pub fn line(row: &BlockRow, first: &BlockRow) -> String {
    let common = &row.row;
    let rate = match row.rate {
        Some(rate) => format!("at {} MB/s", rate as f64 / 1e6),
        None => String::new(),
    };
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let shares = Ends { client: percent(row.cpu_share.client), server: percent(row.cpu_share.server) };
    let ratios = match common.mode == Way::Alone.name() {
        true => String::new(),
        false => format!(
            "{:>7} {:>5}",
            short_ratio(row.cpu_us_per_io() / first.cpu_us_per_io()),
            short_ratio(common.iops / first.row.iops)
        ),
    };
    let line = format!(
        "{:14}{rate:14}{:>9}{:>9.1}   {} {} {:>11.2}{ratios}",
        common.mode,
        short_count(common.iops),
        common.bytes_per_second / 1e6,
        both(shares),
        both(common.cpu_us_per_io),
        row.requests_per_io,
    );
    line.trim_end().to_owned()
}

fn both(ends: Ends) -> String {
    [ends.client, ends.server]
        .map(|value| value.map_or_else(|| format!("{:>8}", "-"), |value| format!("{value:>8.2}")))
        .concat()
}

fn short_ratio(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

const PANELS: [Panel; 4] = [
    Panel { title: "null, reads: CPU, µs an I/O", logarithmic: true },
    Panel { title: "memory, reads: CPU, µs an I/O", logarithmic: true },
    Panel { title: "image, reads: CPU of both ends, µs an I/O", logarithmic: true },
    Panel { title: "image, writes: CPU of both ends, µs an I/O", logarithmic: true },
];

/// Draws the CPU time per I/O by size, for unpaced loads with the fewest callers.
pub fn svg(title: &str, rows: &[BlockRow]) -> String {
    let mut series = vec![
        line_of("containers (small: plugs)", "#0072b2"),
        line_of("global queue", "#d55e00"),
        line_of("pieces", "#009e73"),
    ];
    for row in rows.iter().filter(|row| row.rate.is_none()) {
        let line = match row.row.mode.as_str() {
            mode if mode == Way::Queued.name() => 1,
            mode if mode == Way::CutUp.name() => 2,
            _ => 0,
        };
        let points = &mut series[line].points;
        let point = point(row);
        if !points.iter().any(|old: &Point| old.is_same_kind(&point)) {
            points.push(point);
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by_key(|point| point.block_size));
    picture::draw(title, &PANELS, &series)
}

fn line_of(name: &str, colour: &'static str) -> Series {
    Series { name: name.to_owned(), colour, dashed: false, points: Vec::new() }
}

fn point(row: &BlockRow) -> Point {
    let kinds = DeviceKind::ALL.map(DeviceKind::name);
    let device = kinds.iter().position(|name| *name == row.device);
    let mut values = [None; 4];
    if let Some(device) = device
        && (device == 2 || !row.row.rw.writes())
    {
        values[device + usize::from(row.row.rw.writes())] = Some(row.cpu_us_per_io());
    }
    Point { block_size: row.row.block_size, values }
}
