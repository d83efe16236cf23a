//! Tables and amounts as the `ceph` program's users know them.
//!
//! Source: ceph `src/common/TextTable.cc`, `src/include/types.h` (`byte_u_t`, `si_u_t`).

use onego_ceph::types::Utime;
use std::fmt::Write as _;
use std::time::Duration;

/// To which side a cell is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

pub(crate) use Align::{Left, Right};

/// A table of text: headings above columns that are as wide as their widest cell, two blanks apart.
#[derive(Debug)]
pub(crate) struct Table {
    /// Heading, its alignment, and that of the cells.
    columns: Vec<(&'static str, Align, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Appends a row; cells that are left out at its end are empty.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// The lines, each with its end.
    pub(crate) fn render(&self) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| self.rows.iter().map(|row| row[at].len()).fold(column.0.len(), usize::max))
            .collect();
        let mut text = String::new();
        let heading = self.columns.iter().map(|&(heading, align, _)| (heading, align));
        line(&mut text, &widths, heading);
        for row in &self.rows {
            let aligns = self.columns.iter().map(|column| column.2);
            line(&mut text, &widths, row.iter().map(String::as_str).zip(aligns));
        }
        text
    }
}

fn line<'a>(text: &mut String, widths: &[usize], cells: impl Iterator<Item = (&'a str, Align)>) {
    for (at, ((cell, align), &width)) in cells.zip(widths).enumerate() {
        let gap = if at == 0 { "" } else { "  " };
        // Writing to a string cannot fail.
        let _ = match align {
            Left => write!(text, "{gap}{cell:<width$}"),
            Right => write!(text, "{gap}{cell:>width$}"),
        };
    }
    text.push('\n');
}

/// An amount of bytes: `0 B`, `15 KiB`, `1.8 GiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
    let unit = UNITS.len().min((64 - value.leading_zeros() as usize).saturating_sub(1) / 10 + 1) - 1;
    scaled(value, 1 << (10 * unit), UNITS[unit])
}

/// A number: `999`, `1.23k`, `45M`.
pub(crate) fn number(value: u64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let unit = UNITS.len().min(value.checked_ilog10().unwrap_or(0) as usize / 3 + 1) - 1;
    scaled(value, 1000_u64.pow(unit as u32), UNITS[unit])
}

/// As many places behind the point as fit seven characters, none if there is no need.
fn scaled(value: u64, scale: u64, unit: &str) -> String {
    if value.is_multiple_of(scale) {
        return format!("{}{unit}", value / scale);
    }
    let value = value as f64 / scale as f64;
    let texts = [2, 1, 0].map(|places| format!("{value:.places$}{unit}"));
    texts.iter().find(|text| text.len() <= 7).unwrap_or(&texts[2]).clone()
}

/// A share of a whole in percent: `0`, `8.59`.
pub(crate) fn percent(ratio: f64) -> String {
    if ratio == 0.0 { "0".into() } else { format!("{:.2}", ratio * 100.0) }
}

/// How long something lasts, in the largest unit of which there are two: `119s`, `3m`, `47h`.
pub(crate) fn span(time: Duration) -> String {
    const UNITS: [(u64, &str); 5] = [(604_800, "w"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let seconds = time.as_secs();
    let unit = UNITS.iter().find(|(unit, _)| seconds >= 2 * unit).unwrap_or(&UNITS[4]);
    format!("{}{}", seconds / unit.0, unit.1)
}

/// A point in time: `2026-11-21T20:13:05.931554`, to which a time zone is still to be added.
fn timestamp(time: Utime) -> String {
    let (day, second) = (i64::from(time.sec) / 86_400, time.sec % 86_400);
    let (year, month, day) = civil(day);
    let (hour, minute, second, micros) = (second / 3600, second / 60 % 60, second % 60, time.nsec / 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// A point in time as maps show it; one of long ago, which stands for "never", as a number.
pub(crate) fn stamp(time: Utime) -> String {
    // Ceph takes what is shorter than ten years for a span of time.
    if time.sec < 10 * 365 * 86_400 {
        return format!("{}.{:06}", time.sec, time.nsec / 1000);
    }
    timestamp(time) + "+0000"
}

/// A point in time as the monitors' map shows it.
pub(crate) fn stamp_utc(time: Utime) -> String {
    timestamp(time) + "Z"
}

/// Year, month and day of the Gregorian calendar, from days since 1970: counted in years that begin in March, so that
/// leap days come last, in eras of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // 1970-01-01 from 0000-03-01
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_as_ceph_prints_them() {
        let time = Utime { sec: 1_795_291_985, nsec: 931_554_321 };
        assert_eq!(stamp(time), "2026-11-21T20:13:05.931554+0000");
        assert_eq!(stamp(Utime::default()), "0.000000");
        let leap = Utime { sec: 1_709_164_800, nsec: 0 };
        assert_eq!(stamp_utc(leap), "2024-02-29T00:00:00.000000Z");
        let spans = [0, 119, 120, 7199, 7200, 200_000, 1_300_000];
        let shown = spans.map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0s", "119s", "2m", "119m", "2h", "2d", "2w"]);
    }

    #[test]
    fn amounts_look_as_ceph_prints_them() {
        let shown = [0, 35, 1023, 1024, 15000, 184_573_128, 1_962_910_520, 2 << 30, u64::MAX].map(bytes);
        let expected = ["0 B", "35 B", "1023 B", "1 KiB", "15 KiB", "176 MiB", "1.8 GiB", "2 GiB", "16 EiB"];
        assert_eq!(shown, expected);
        assert_eq!(
            [0, 50, 999, 1000, 1234, 45_600_000].map(number),
            ["0", "50", "999", "1k", "1.23k", "45.60M"]
        );
    }

    #[test]
    fn a_table_is_as_wide_as_its_widest_cells() {
        let mut table = Table::new(&[("CLASS", Left, Left), ("SIZE", Right, Right)]);
        table.row(["hdd", "2 GiB"]);
        table.row(["TOTAL"]);
        assert_eq!(table.render(), "CLASS   SIZE\nhdd    2 GiB\nTOTAL       \n");
    }
}
