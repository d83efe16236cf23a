//! Rows of figures, human- and machine-readable.

use super::cell::{Cell, Path};
use super::figures::Figures;
use super::ratio::Ratio;
use crate::report::picture::{self, Panel, Point, Series};
use crate::report::table::short_size;
use crate::row::{self, Count, Ends, Load, Pattern};
use serde::{Deserialize, Serialize};

/// One figure with its parameters: the fields of all benchmarks, and those of this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Latency is that of a submission until it is accepted; `mode` is the sender, `io_depth` the sends per submission.
    #[serde(flatten)]
    pub row: row::Row,
    /// The path.
    pub path: String,
    /// Flush rule of slots.
    pub flush: String,
    /// Number of measurements, of which this is the median by CPU time per byte.
    pub repeat: usize,
    /// CPU seconds per 10^9 bytes.
    pub cpu_seconds_per_gb: Ends,
    /// Share of zero-copy sends that the kernel reported as copied.
    pub copied: Option<f64>,
    /// CPU time of both ends relative to that of our copying sends, pair by pair; absent with few pairs.
    pub to_copy: Option<Ratio>,
}

impl Row {
    pub(super) fn new(cell: &Cell, mut figures: Vec<Figures>, to_copy: Option<Ratio>) -> Self {
        let cost = |figures: &Figures| figures.cpu_per_gb().client.unwrap_or(f64::INFINITY);
        figures.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let repeat = figures.len();
        let median = figures.swap_remove(repeat / 2);
        let load = Load { rw: Pattern::Write, block_size: cell.size.into(), jobs: 1, io_depth: cell.batch };
        let (cpu_seconds_per_gb, copied) = (median.cpu_per_gb(), median.copied());
        let count = Count {
            ios: median.count.sends,
            errors: 0,
            seconds: median.seconds,
            latency: median.latency,
            cpu_seconds: median.cpu_seconds,
        };
        Self {
            row: row::Row::new("zc", cell.sender.engine(), cell.sender.name(), load, &count),
            path: cell.path.name().to_owned(),
            flush: cell.flush.name().to_owned(),
            repeat,
            cpu_seconds_per_gb,
            copied,
            to_copy,
        }
    }

    fn name(&self) -> String {
        match self.row.engine.as_str() {
            "uring" if self.flush == "batch" => {
                format!("{} n={} flush a batch", self.row.mode, self.row.io_depth)
            }
            "uring" => format!("{} n={}", self.row.mode, self.row.io_depth),
            _ => self.row.mode.clone(),
        }
    }
}

/// Returns the heading of the rows with the same path and size.
pub fn header(row: &Row) -> String {
    let what = match row.path.parse() {
        Ok(Path::Sink) => "UDP to a sink",
        Ok(Path::Loopback) => "TCP over loopback",
        _ => "TCP over veth",
    };
    let title = format!("==== {what}, {} ====", short_size(row.row.block_size));
    format!(
        "{title}\n{:26} {:>8} {:>10} {:>10} {:>7} {:>12} {:>19}",
        "", "MB/s", "CPU s/GB", "receiver", "copied", "CPU, ratio", "both ends to copy"
    )
}

/// Formats a row; its last column is its CPU time per byte relative to that of `baseline`.
pub fn line(row: &Row, baseline: Option<&Row>) -> String {
    let digits = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let client = |row: &Row| row.cpu_seconds_per_gb.client;
    let ratio = client(row).zip(baseline.and_then(client)).map(|(cpu, baseline)| baseline / cpu);
    format!(
        "{:26} {:>8.0} {:>10} {:>10} {:>7} {:>12} {:>19}",
        row.name(),
        row.row.bytes_per_second / 1e6,
        digits(client(row)),
        digits(row.cpu_seconds_per_gb.server),
        row.copied.map_or_else(|| "-".to_owned(), |copied| format!("{:.0}%", copied * 100.0)),
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        row.to_copy.map_or_else(
            || "-".to_owned(),
            |Ratio { median, low, high }| format!("{median:.3} ({low:.2}-{high:.2})")
        ),
    )
}

/// Sends per submission to draw, if measured.
const DRAWN_BATCH: u32 = 8;

const PANELS: [Panel; 4] = [
    Panel { title: "UDP to a sink, GB/s", logarithmic: false },
    Panel { title: "UDP to a sink, CPU s/GB", logarithmic: true },
    Panel { title: "TCP over loopback, CPU s/GB of the sender", logarithmic: true },
    Panel { title: "TCP over veth, CPU s/GB of the sender", logarithmic: true },
];

/// A palette for colour-blind readers (Okabe and Ito), extended.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#785ef0", "#e69f00", "#56b4e9", "#444444"];

/// Draws bandwidth and CPU by size: for senders with batches those of eight, with the rarest flushes measured.
pub fn svg(title: &str, rows: &[Row]) -> String {
    let batches = || rows.iter().filter(|row| row.row.engine == "uring").map(|row| row.row.io_depth);
    let batch = batches().find(|batch| *batch == DRAWN_BATCH).or_else(|| batches().max()).unwrap_or(1);
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.row.engine != "uring" || row.row.io_depth == batch) {
        let index = series.iter().position(|series| series.name == row.row.mode).unwrap_or_else(|| {
            let colour = COLOURS[series.len() % COLOURS.len()];
            let dashed = row.row.mode.starts_with("bare");
            series.push(Series { name: row.row.mode.clone(), colour, dashed, points: Vec::new() });
            series.len() - 1
        });
        let points = &mut series[index].points;
        let point = point(row);
        // The same cell with another flush rule follows it, and replaces it.
        match points.iter_mut().find(|old| old.is_same_kind(&point)) {
            Some(old) => *old = point,
            None => points.push(point),
        }
    }
    picture::draw(title, &PANELS, &series)
}

fn point(row: &Row) -> Point {
    let cpu = row.cpu_seconds_per_gb.client;
    let values = match row.path.parse() {
        Ok(Path::Sink) => [Some(row.row.bytes_per_second / 1e9), cpu, None, None],
        Ok(Path::Loopback) => [None, None, cpu, None],
        _ => [None, None, None, cpu],
    };
    Point { block_size: row.row.block_size, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::latency_histogram;
    use crate::zc::{Flush, Sender};
    use onego_engine::zero_copy::bare;

    fn figures(cpu: f64, copied: u64) -> Figures {
        let count = bare::Count { sends: 1000, bytes: 65_435_000, reported: 1000, copied };
        let cpu_seconds = Ends { client: Some(cpu), server: None };
        Figures { count, seconds: 0.5, cpu_seconds, latency: latency_histogram() }
    }

    fn row(sender: Sender, batch: u32, cpu: &[f64], copied: u64) -> Row {
        let cell = Cell { path: Path::Sink, sender, size: 65_435, batch, flush: Flush::Request, pieces: 1 };
        Row::new(&cell, cpu.iter().map(|cpu| figures(*cpu, copied)).collect(), None)
    }

    #[test]
    fn a_row_is_the_median_and_has_the_fields_of_all_benchmarks() {
        let row = row(Sender::Fixed, 8, &[0.5, 0.1, 0.3], 250);
        assert_eq!(row.row.cpu_seconds.client, Some(0.3));
        let json = serde_json::to_value(&row).unwrap();
        for (field, value) in [("bench", "zc"), ("engine", "uring"), ("mode", "fixed"), ("path", "sink")] {
            assert_eq!(json[field], value);
        }
        assert_eq!(
            (&json["io_depth"], &json["copied"], &json["repeat"]),
            (&8.into(), &0.25.into(), &3.into())
        );
        assert_eq!(serde_json::from_value::<Row>(json).unwrap(), row);
    }

    #[test]
    fn columns_stand_below_their_heads() {
        let baseline = row(Sender::MsgZerocopy, 1, &[0.2], 0);
        let row = row(Sender::Fixed, 8, &[0.1], 0);
        let head = header(&row);
        let (head, line) = (head.lines().last().unwrap(), line(&row, Some(&baseline)));
        assert!(line.ends_with(" 0%         2.00                   -"), "{line}");
        assert_eq!(head.len(), line.len(), "\n{head}\n{line}");
    }

    #[test]
    fn a_picture_has_a_line_for_each_sender() {
        let rows = [
            row(Sender::Send, 1, &[0.3], 0),
            row(Sender::Fixed, 1, &[0.2], 0),
            row(Sender::Fixed, 8, &[0.1], 0),
        ];
        let picture = svg("zero-copy", &rows);
        assert!(picture.contains(">send</text>") && picture.contains(">fixed</text>"));
        assert_eq!(picture.matches("<polyline").count(), 2 + 2 * 2, "names, and two diagrams with both");
    }
}
