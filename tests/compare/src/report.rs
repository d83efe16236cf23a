//! Tables for people: medians of all rounds, and ratios.

use crate::BASELINE;
use crate::row::Row;

/// A figure of a row, if it was measured.
pub(crate) type Figure = fn(&Row) -> Option<f64>;

pub(crate) const IOPS: Figure = |row| Some(row.iops);
pub(crate) const MIB: Figure = |row| Some(row.bytes_per_second / f64::from(1 << 20));
/// CPU microseconds an I/O.
pub(crate) const CLIENT: Figure = |row| row.cpu_us_per_io.client;
pub(crate) const SERVER: Figure = |row| row.cpu_us_per_io.server;
pub(crate) const BOTH_ENDS: Figure = |row| Some(CLIENT(row)? + SERVER(row)?);
/// Not all clients measure latency.
const P99: Figure = |row| Some(row.latency_us.p99).filter(|p99| *p99 > 0.0);

/// Columns: heading, figure, width, decimals.
const COLUMNS: [(&str, Figure, usize, usize); 5] = [
    ("IOPS", IOPS, 10, 0),
    ("MiB/s", MIB, 9, 0),
    ("client us/IO", CLIENT, 14, 2),
    ("server us/IO", SERVER, 14, 2),
    ("p99 us", P99, 9, 0),
];

/// Width of names.
const NAME: usize = 38;

/// Rows with the same title.
pub(crate) struct Table<'a> {
    title: &'a str,
    rows: Vec<&'a Row>,
}

/// Prints the tables in the order of their first measurement; `ratios` prints the lines below each.
pub(crate) fn print(rows: &[Row], ratios: impl Fn(&Table<'_>)) {
    for title in in_order(rows.iter().map(|row| row.table.as_str())) {
        let table = Table { title, rows: rows.iter().filter(|row| row.table == title).collect() };
        table.print();
        ratios(&table);
    }
}

/// Returns the different names in the order of their first occurrence.
fn in_order<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Table<'_> {
    fn print(&self) {
        let heads = COLUMNS.map(|(head, _, width, _)| format!("{head:>width$}"));
        println!("\n{:NAME$}{}", self.title, heads.concat());
        let names = in_order(self.rows.iter().map(|row| row.who.as_str()));
        for who in &names {
            let column = |(_, figure, width, decimals)| column(self.median(who, figure), width, decimals);
            println!("{who:NAME$}{}", COLUMNS.map(column).concat());
        }
        // The build under test is measured first in the first round.
        for baseline in names.iter().filter(|who| who.starts_with(BASELINE)) {
            self.round_by_round("ours", names[0], baseline);
        }
    }

    /// Returns the median of a figure, if anything measured it.
    pub(crate) fn median(&self, who: &str, figure: Figure) -> Option<f64> {
        median(self.rows_of(who).filter_map(figure).collect())
    }

    /// Prints ratios of medians: label, figure, numerator, denominator. Omits those that were not measured.
    pub(crate) fn ratios(&self, ratios: &[(&str, Figure, &str, &str)]) {
        for (label, figure, one, other) in ratios {
            ratio(label, self.median(one, *figure), self.median(other, *figure));
        }
    }

    /// Prints medians of each round's ratio: when a machine's speed changes between rounds, these vary less than
    /// ratios of medians.
    pub(crate) fn round_by_round(&self, label: &str, one: &str, other: &str) {
        let of_rounds = |figure: Figure| {
            let rounds = self.rows_of(one).zip(self.rows_of(other));
            median(rounds.filter_map(|(one, other)| Some(figure(one)? / figure(other)?)).collect())
        };
        line(&format!("IOPS, {label} to {other}, round by round"), of_rounds(IOPS));
        line("CPU an I/O of both ends, the same", of_rounds(BOTH_ENDS));
    }

    fn rows_of(&self, who: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().copied().filter(move |row| row.who == who)
    }
}

/// Prints a ratio, if both figures were measured.
pub(crate) fn ratio(label: &str, one: Option<f64>, other: Option<f64>) {
    line(label, one.zip(other).map(|(one, other)| one / other));
}

fn line(label: &str, ratio: Option<f64>) {
    if let Some(ratio) = ratio {
        println!("  {label:58}{ratio:>9.3}");
    }
}

/// Formats a figure right-aligned.
pub(crate) fn column(figure: Option<f64>, width: usize, decimals: usize) -> String {
    figure.map_or_else(|| format!("{:>width$}", "-"), |figure| format!("{figure:>width$.decimals$}"))
}

/// Returns the middle value, or the mean of the two in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().checked_sub(1)?;
    Some(f64::midpoint(figures[last / 2], figures[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn median_of_an_even_count_is_a_mean() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }
}
