//! What a load gave, as `rados bench` reports it.

use super::content::Series;
use super::number::shown;
use crate::failure::Failure;
use crate::output;
use crate::rados::scope::Style;
use crate::rados::time::stamp;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use std::time::{Duration, Instant, SystemTime};

/// A head stands above as many lines.
const LINES_OF_PAGE: u64 = 20;

/// Bytes of what a rate counts as MB.
const MIB: f64 = 1_048_576.0;

/// Fields of an object in JSON, in their order.
#[derive(Default)]
pub(super) struct Fields(Vec<(&'static str, Field)>);

enum Field {
    Text(String),
    List(Vec<Fields>),
}

impl Fields {
    /// Adds a value, which is text whatever it is.
    pub(super) fn add(&mut self, name: &'static str, value: impl ToString) {
        self.0.push((name, Field::Text(value.to_string())));
    }

    /// Adds to the list of what each second gave.
    fn add_second(&mut self, second: Self) {
        if let Some((_, Field::List(list))) = self.0.last_mut() {
            list.push(second);
        } else {
            self.0.push(("datas", Field::List(vec![second])));
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, field) in &self.0 {
            match field {
                Field::Text(text) => map.serialize_entry(name, text)?,
                Field::List(list) => map.serialize_entry(name, list)?,
            }
        }
        map.end()
    }
}

/// Numbers of which the mean and the spread are wanted (Welford's method).
#[derive(Debug, Clone, Copy)]
struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::MAX, max: 0.0 }
    }
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

/// What a load has given so far.
pub(super) struct Statistics {
    start: Instant,
    took: Duration,
    op_size: u64,
    style: Style,
    show_time: bool,
    started: u64,
    finished: u64,
    latency: Spread,
    last_latency: f64,
    /// What the seconds gave that are over.
    bandwidth: Spread,
    iops: Spread,
    /// When the last line was printed, and requests that were done then.
    line: (Instant, u64),
}

impl Statistics {
    pub(super) fn new(start: Instant, op_size: u64, style: Style, show_time: bool) -> Self {
        Self {
            start,
            took: Duration::ZERO,
            op_size,
            style,
            show_time,
            started: 0,
            finished: 0,
            latency: Spread::default(),
            last_latency: 0.0,
            bandwidth: Spread::default(),
            iops: Spread::default(),
            line: (start, 0),
        }
    }

    pub(super) fn started(&mut self) {
        self.started += 1;
    }

    pub(super) fn done(&mut self, took: Duration) {
        self.finished += 1;
        self.last_latency = took.as_secs_f64();
        self.latency.add(self.last_latency);
    }

    pub(super) fn end(&mut self) {
        self.took = self.start.elapsed();
    }

    /// Requests that are done.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    fn rate(&self, ops: u64, time: Duration) -> f64 {
        if time.is_zero() { 0.0 } else { ops as f64 * self.op_size as f64 / time.as_secs_f64() / MIB }
    }

    /// Prints the line of a second.
    pub(super) fn tick(&mut self, second: u64, fields: &mut Fields) {
        let now = Instant::now();
        let (cycle, ops) = (now - self.line.0, self.finished - self.line.1);
        let average = self.rate(self.finished, now - self.start);
        let current = self.rate(ops, cycle);
        if second > 0 {
            self.bandwidth.add(current);
            self.iops.add(ops as f64 / cycle.as_secs_f64().max(f64::MIN_POSITIVE));
        }
        self.line = (now, self.finished);
        let in_flight = self.started - self.finished;
        if self.style == Style::Plain {
            // Nobody who reads it no longer is told so; what the load gave is.
            let _ = output::lines(self.lines(second, in_flight, ops, average, current));
            return;
        }
        let mut row = Fields::default();
        row.add("sec", second);
        row.add("cur_ops", in_flight);
        row.add("started", self.started);
        row.add("finished", self.finished);
        row.add("avg_bw", format!("{average:.6}"));
        row.add("cur_bw", format!("{current:.6}"));
        row.add("last_lat", format!("{:.6}", if ops > 0 { self.last_latency } else { 0.0 }));
        row.add("avg_lat", format!("{:.6}", self.latency.mean));
        fields.add_second(row);
    }

    fn lines(&self, second: u64, in_flight: u64, ops: u64, average: f64, current: f64) -> Vec<String> {
        let mut lines = Vec::new();
        let time = if self.show_time { format!("{} ", stamp(SystemTime::now())) } else { String::new() };
        if second.is_multiple_of(LINES_OF_PAGE) {
            if second > 0 {
                let Spread { min, max, mean, .. } = self.latency;
                let [min, max, mean] = [min, max, mean].map(shown);
                let now = stamp(SystemTime::now());
                lines.push(format!("{now} min lat: {min} max lat: {max} avg lat: {mean}"));
            }
            let blank = " ".repeat(time.len());
            lines.push(format!(
                "{blank}{:>5}{:>8}{:>10}{:>10}{:>10}{:>10}{:>12}{:>12}",
                "sec", "Cur ops", "started", "finished", "avg MB/s", "cur MB/s", "last lat(s)", "avg lat(s)"
            ));
        }
        let (current, last) = match ops {
            0 => ("0".to_owned(), "-".to_owned()),
            _ => (shown(current), shown(self.last_latency)),
        };
        let (average, latency) = (shown(average), shown(self.latency.mean));
        let (started, finished) = (self.started, self.finished);
        lines.push(format!(
            "{time}{second:>5}{in_flight:>8}{started:>10}{finished:>10}{average:>10}{current:>10}{last:>12}{latency:>12}"
        ));
        lines
    }

    /// Prints what all gave, or adds it to the fields.
    pub(super) fn report(
        &self,
        is_write: bool,
        series: &Series,
        style: Style,
        fields: &mut Fields,
    ) -> Result<(), Failure> {
        let rows = self.rows(is_write, series);
        if style == Style::Plain {
            let width = if is_write { 24 } else { 22 };
            return output::lines(rows.into_iter().map(|Row { label, number, .. }| {
                let text = match number {
                    Number::Count(count) => count.to_string(),
                    Number::Real(value) => shown(value),
                };
                format!("{:<width$}{text}", format!("{label}:"))
            }));
        }
        for Row { field, number, .. } in rows {
            match number {
                Number::Count(count) => fields.add(field, count),
                Number::Real(value) => fields.add(field, format!("{value:.6}")),
            }
        }
        Ok(())
    }

    fn rows(&self, is_write: bool, series: &Series) -> Vec<Row> {
        let row = |label, field, number| Row { label, field, number };
        let count = |value: f64| Number::Count(value as u64);
        let seconds = self.took.as_secs_f64().max(f64::MIN_POSITIVE);
        // Loads that are over within a second have no second to be told of.
        let iops = if self.iops.count > 0 {
            self.iops
        } else {
            Spread { min: self.finished as f64, max: self.finished as f64, ..Spread::default() }
        };
        let Spread { min, max, mean, .. } = self.latency;
        let (made, size) = match is_write {
            true => (("Total writes made", "total_writes_made"), ("Write size", "write_size")),
            false => (("Total reads made", "total_reads_made"), ("Read size", "read_size")),
        };
        let mut rows = vec![
            row("Total time run", "total_time_run", Number::Real(self.took.as_secs_f64())),
            row(made.0, made.1, Number::Count(self.finished)),
            row(size.0, size.1, Number::Count(series.op_size)),
            row("Object size", "object_size", Number::Count(series.object_size)),
            row("Bandwidth (MB/sec)", "bandwidth", Number::Real(self.rate(self.finished, self.took))),
        ];
        if is_write {
            let bandwidth = &self.bandwidth;
            rows.extend([
                row("Stddev Bandwidth", "stddev_bandwidth", Number::Real(bandwidth.deviation())),
                row("Max bandwidth (MB/sec)", "max_bandwidth", Number::Real(bandwidth.max)),
                row("Min bandwidth (MB/sec)", "min_bandwidth", Number::Real(bandwidth.min)),
            ]);
        }
        rows.extend([
            row("Average IOPS", "average_iops", count(self.finished as f64 / seconds)),
            row("Stddev IOPS", "stddev_iops", Number::Real(iops.deviation())),
            row("Max IOPS", "max_iops", count(iops.max)),
            row("Min IOPS", "min_iops", count(iops.min)),
            row("Average Latency(s)", "average_latency", Number::Real(mean)),
        ]);
        if is_write {
            rows.push(row("Stddev Latency(s)", "stddev_latency", Number::Real(self.latency.deviation())));
        }
        rows.extend([
            row("Max latency(s)", "max_latency", Number::Real(max)),
            row("Min latency(s)", "min_latency", Number::Real(min)),
        ]);
        rows
    }
}

/// A number of the report, by its names for people and for programs.
struct Row {
    label: &'static str,
    field: &'static str,
    number: Number,
}

enum Number {
    Count(u64),
    Real(f64),
}
