//! How commands print what they found.

use super::table::{self, Alignment};
use crate::failure::Failure;
use crate::output;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use std::time::SystemTime;

/// Options that say how to print.
#[derive(clap::Args)]
pub(crate) struct PrintOptions {
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
    /// Print JSON in many lines
    #[arg(long)]
    pretty_format: bool,
}

impl PrintOptions {
    /// Prints lines for people, or a value for programs.
    pub(super) fn print(
        &self,
        lines: impl FnOnce() -> Vec<String>,
        value: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        match self.format {
            output::Format::Plain => output::lines(lines()),
            output::Format::Json if self.pretty_format => output::text(&format!("{}\n", pretty(&value()))),
            output::Format::Json => output::json(&value()),
        }
    }

    /// The same with a table for people, of which nothing is printed if it has no rows.
    pub(super) fn table(
        &self,
        head: &[(&str, Alignment)],
        rows: &[Vec<String>],
        value: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        let lines = || if rows.is_empty() { Vec::new() } else { table::lines(head, rows) };
        self.print(lines, value)
    }
}

/// JSON in many lines, four blanks a level, as Ceph's programs indent it.
fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    // Memory takes all of it, and a value has no keys but text.
    value.serialize(&mut serializer).expect("a value can be written to memory");
    String::from_utf8_lossy(&text).into_owned()
}

/// An address as `rbd` prints it: without the version of the messenger.
pub(super) fn address(addr: &impl std::fmt::Display) -> String {
    let text = addr.to_string();
    match text.split_once(':') {
        Some(("v1" | "v2" | "any", rest)) => rest.to_owned(),
        _ => text,
    }
}

/// A time in UTC as `rbd` prints times, which is how C's `asctime` does it.
pub(super) fn asctime(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    // RFC 3339 has all of it but for the day of the week: 2024-03-01T00:00:00Z.
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let number =
        |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse().ok()).unwrap_or(0_usize);
    let day = DAYS[(seconds / 86_400 % 7) as usize];
    let month = MONTHS[(number(5, 7).max(1) - 1) % 12];
    format!("{day} {month} {:>2} {} {}", number(8, 10), &text[11..19], &text[..4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_printed_as_ceph_prints_them() {
        let at = |seconds| asctime(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(1_709_251_200), "Fri Mar  1 00:00:00 2024");
        assert_eq!(at(1_795_528_728), "Tue Nov 24 13:58:48 2026");
    }

    #[test]
    fn json_is_indented_as_ceph_indents_it() {
        let value = serde_json::json!([{"id": 4, "name": "s1"}]);
        assert_eq!(pretty(&value), "[\n    {\n        \"id\": 4,\n        \"name\": \"s1\"\n    }\n]");
    }
}
