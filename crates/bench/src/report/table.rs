//! Measurements in human-readable form: fio's terms, and their cost.

use crate::row::{Ends, Row};

/// Formats a block size in fio's short form: `4k`, `1m`.
pub fn short_size(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Formats a number of requests in fio's short form: `8726`, `92.7k`, `1234k`.
pub(crate) fn short_count(n: f64) -> String {
    match n {
        _ if n < 9999.5 => format!("{n:.0}"),
        _ if n < 999_950.0 => format!("{:.1}k", n / 1e3),
        _ => format!("{:.0}k", n / 1e3),
    }
}

pub(crate) fn short_rate(bytes_per_second: f64) -> String {
    let mib = bytes_per_second / f64::from(1 << 20);
    if mib < 9.95 { format!("{mib:.2}MiB/s") } else { format!("{mib:.0}MiB/s") }
}

fn micros(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

fn both(ends: Ends) -> String {
    format!("{:>8} {:>8}", micros(ends.client), micros(ends.server))
}

/// Mode of benchmarks with a single one.
pub(crate) const OURS: &str = "onego";

/// Returns the heading of a pattern's lines.
pub fn header(row: &Row, with_floor: bool) -> String {
    let mut title =
        format!("{}, numjobs={} iodepth={}, {}", row.rw.name(), row.jobs, row.io_depth, row.engine);
    if row.mode != OURS {
        title += &format!(", {}", row.mode);
    }
    let mut lines = [
        format!("==== {title} ===="),
        format!("{:48}     CPU usec/IO", ""),
        format!("{:48}{:>8} {:>8}", "", "client", "server"),
    ];
    if with_floor {
        lines[1] += "     bare sockets   CPU usec/IO";
        lines[2] += &format!("   {:>13} {:>8} {:>8}", "", "client", "server");
    }
    lines.map(|line| line.trim_end().to_owned()).join("\n")
}

/// Formats a measurement next to that of bare sockets.
pub fn line(row: &Row, floor: Option<&Row>) -> String {
    let figures = format!(
        "{:>4}  IOPS={}, BW={}, Lat={:.2}usec",
        short_size(row.block_size),
        short_count(row.iops),
        short_rate(row.bytes_per_second),
        row.latency_us.mean
    );
    let mut line = format!("{figures:48}{}", both(row.cpu_us_per_io));
    if let Some(floor) = floor {
        let iops = format!("IOPS={}", short_count(floor.iops));
        line += &format!("   {iops:>13} {}", both(floor.cpu_us_per_io));
    }
    if row.errors > 0 {
        line += &format!("   {} ERRORS", row.errors);
    }
    line
}

/// Returns microseconds per operation as iozone prints them: a line per block size and a column per pattern, one table
/// per mode, with the CPU time of both ends.
pub fn by_record(rows: &[Row]) -> Vec<String> {
    let mut modes: Vec<&str> = Vec::new();
    let (mut patterns, mut sizes) = (Vec::new(), Vec::new());
    for row in rows {
        if !modes.contains(&row.mode.as_str()) {
            modes.push(&row.mode);
        }
        if !patterns.contains(&row.rw) {
            patterns.push(row.rw);
        }
        sizes.push(row.block_size);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let mut lines = Vec::new();
    for mode in modes {
        lines.push(format!("==== {mode}: usec an operation (CPU of both ends) ===="));
        let head: String = patterns.iter().map(|rw| format!("{:>18}", rw.name())).collect();
        lines.push(format!("{:>6}{head}", ""));
        for size in &sizes {
            let cells = patterns.iter().map(|rw| {
                let of = |row: &&Row| (row.mode.as_str(), row.rw, row.block_size) == (mode, *rw, *size);
                rows.iter().find(of).map_or_else(|| format!("{:>18}", "-"), cell)
            });
            lines.push(format!("{:>6}{}", short_size(*size), cells.collect::<String>()));
        }
    }
    lines
}

fn cell(row: &Row) -> String {
    let Ends { client, server } = row.cpu_us_per_io;
    let cpu = client
        .zip(server)
        .map_or_else(|| "-".to_owned(), |(client, server)| format!("{:.1}", client + server));
    format!("{:>9.1} {:>8}", 1e6 / row.iops, format!("({cpu})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Count, Load, Pattern, latency_histogram};

    fn row(server: Option<f64>) -> Row {
        let load = Load { rw: Pattern::RandWrite, block_size: 4096, jobs: 1, io_depth: 128 };
        let mut latency = latency_histogram();
        latency.record(310_000).unwrap();
        let cpu_seconds = Ends { client: Some(0.5), server };
        Row::new(
            "rbd",
            "epoll",
            "onego",
            load,
            &Count { ios: 412_345, errors: 0, seconds: 1.0, latency, cpu_seconds },
        )
    }

    #[test]
    fn numbers_are_as_short_as_those_of_fio() {
        let counts = [7.0, 8726.0, 9999.9, 92_650.0, 412_345.0, 1_234_567.0].map(short_count);
        assert_eq!(counts, ["7", "8726", "10.0k", "92.7k", "412.3k", "1235k"]);
        assert_eq!([4096, 1 << 20, 3 << 20, 512, 0].map(short_size), ["4k", "1m", "3m", "512", "0"]);
        assert_eq!([362.4, 4.0].map(|mib| short_rate(mib * 1048576.0)), ["362MiB/s", "4.00MiB/s"]);
    }

    #[test]
    fn columns_stand_below_their_heads() {
        let (row, unknown) = (row(Some(0.8)), row(None));
        let head = header(&row, true);
        let line = line(&row, Some(&row));
        assert!(line.starts_with("  4k  IOPS=412.3k, BW=1611MiB/s, Lat=309."), "{line}");
        let end_of = |text: &str, what: &str| text.rfind(what).unwrap() + what.len();
        let columns = head.lines().last().unwrap();
        assert_eq!(end_of(columns, "server"), end_of(&line, "1.94"), "\n{head}\n{line}");
        assert_eq!(columns.find("client").unwrap() + 6, line.find("1.21").unwrap() + 4, "\n{head}\n{line}");
        assert!(super::line(&unknown, None).ends_with("1.21        -"));
    }
}
