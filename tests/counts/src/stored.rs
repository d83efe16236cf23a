//! The file of counts, and what has changed since it was written.

use crate::callgrind::Cost;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;

/// Change that is refused, in thousandths: more needs a reason, and less would hide the next rise.
const BOUND: u64 = 20;

/// Start of the first line of the file.
const TOOLS: &str = "# ";

/// CountedOp and side.
pub(crate) type Key = (String, String);

/// Counts by operation and side, and the tools that they depend on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) tools: String,
    pub(crate) rows: BTreeMap<Key, Cost>,
}

/// Returns the reason for which a row fails.
///
/// Both all instructions and those besides checksums and copies are held to the bound, so a large payload does not hide a change of
/// the rest.
pub(crate) fn failure(stored: Option<Cost>, measured: Option<Cost>) -> Option<&'static str> {
    let Some(stored) = stored else { return Some("not in the file") };
    let Some(measured) = measured else { return Some("in the file, but no such operation") };
    let pairs = [(stored.total, measured.total), (stored.rest(), measured.rest())];
    if pairs.iter().any(|(stored, measured)| measured * 1000 > stored * (1000 + BOUND)) {
        Some("more than 2% above the file")
    } else if pairs.iter().any(|(stored, measured)| measured * 1000 < stored * (1000 - BOUND)) {
        Some("more than 2% below the file")
    } else {
        None
    }
}

impl Counts {
    /// Reads the file: a comment with the tools, and rows `operation.side = [total, checksums, copies]`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let tools =
            text.lines().next().and_then(|line| line.strip_prefix(TOOLS)).unwrap_or_default().to_owned();
        let row = |line: &str| {
            let (key, numbers) = line.split_once(" = ")?;
            let (operation, side) = key.split_once('.')?;
            let numbers = numbers.strip_prefix('[')?.strip_suffix(']')?.split(", ").map(str::parse);
            let [total, checksums, copies] =
                numbers.collect::<Result<Vec<u64>, _>>().ok()?.try_into().ok()?;
            Some(((operation.to_owned(), side.to_owned()), Cost { total, checksums, copies }))
        };
        let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rows = rows
            .map(|line| row(line).with_context(|| format!("not a row: {line}")))
            .collect::<Result<_>>()?;
        Ok(Self { tools, rows })
    }

    /// Returns the content of the file.
    pub(crate) fn format(&self) -> String {
        let head = format!(
            "{TOOLS}{}\n# operation.side = [instructions, of these in checksums, in copies]\n",
            self.tools
        );
        let row = |((operation, side), Cost { total, checksums, copies }): (&Key, &Cost)| {
            format!("{operation}.{side} = [{total}, {checksums}, {copies}]\n")
        };
        self.rows.iter().map(row).fold(head, |text, row| text + &row)
    }

    /// Returns the rows of both, each with the stored and the measured cost.
    pub(crate) fn compare(&self, measured: &Self) -> BTreeMap<Key, (Option<Cost>, Option<Cost>)> {
        let mut rows = BTreeMap::<Key, (Option<Cost>, Option<Cost>)>::new();
        self.rows.iter().for_each(|(key, cost)| rows.entry(key.clone()).or_default().0 = Some(*cost));
        measured.rows.iter().for_each(|(key, cost)| rows.entry(key.clone()).or_default().1 = Some(*cost));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(total: u64, checksums: u64, copies: u64) -> Option<Cost> {
        Some(Cost { total, checksums, copies })
    }

    const ABOVE: Option<&str> = Some("more than 2% above the file");
    const BELOW: Option<&str> = Some("more than 2% below the file");

    #[test]
    fn a_count_may_change_by_two_percent_in_either_direction() {
        for (total, expected) in [(10_200, None), (10_201, ABOVE), (9_800, None), (9_799, BELOW)] {
            assert_eq!(failure(cost(10_000, 0, 0), cost(total, 0, 0)), expected, "{total}");
        }
    }

    #[test]
    fn copies_do_not_hide_a_change_of_the_rest() {
        let stored = cost(100_000, 10_000, 80_000);
        assert_eq!(failure(stored, cost(100_300, 10_000, 80_000)), ABOVE);
        assert_eq!(failure(stored, cost(99_700, 10_000, 80_000)), BELOW);
        assert_eq!(failure(stored, cost(104_000, 10_000, 84_000)), ABOVE, "another copy");
    }

    #[test]
    fn a_row_without_a_counterpart_fails() {
        let counts = |names: &[&str]| {
            let row = |name: &&str| (((*name).to_owned(), "client".to_owned()), cost(1, 0, 0).unwrap());
            Counts { tools: String::new(), rows: names.iter().map(row).collect() }
        };
        let rows = counts(&["both", "stored"]).compare(&counts(&["both", "measured"]));
        let failures: Vec<_> = rows
            .iter()
            .map(|(key, (stored, measured))| (key.0.as_str(), failure(*stored, *measured)))
            .collect();
        let expected = [
            ("both", None),
            ("measured", Some("not in the file")),
            ("stored", Some("in the file, but no such operation")),
        ];
        assert_eq!(failures, expected);
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let rows = BTreeMap::from([
            (("a".to_owned(), "client".to_owned()), cost(12, 3, 4).unwrap()),
            (("b-4k".to_owned(), "server".to_owned()), cost(15, 0, 0).unwrap()),
        ]);
        let counts = Counts { tools: "valgrind-3.19.0, rustc 1.95.0".into(), rows };
        assert_eq!(Counts::parse(&counts.format()).unwrap(), counts);
        assert!(Counts::parse("a.client = [1, 2]").is_err());
    }
}
