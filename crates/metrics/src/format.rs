//! Text formats of metric families.
//!
//! Sources: Prometheus `docs/instrumenting/exposition_formats.md` (text format 0.0.4), and `OpenMetrics` 1.0.0, "Text
//! format".

use crate::families::{Families, Family, FamilyKind, Labels, Sample};
use crate::histogram::HistogramSnapshot;
use std::fmt::Write as _;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Prometheus text format, version 0.0.4.
    #[default]
    Prometheus,
    /// `OpenMetrics` text format, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Selects the format that an `Accept` header prefers; Prometheus if it accepts anything or neither format.
    pub fn of_accept(accept: &str) -> Self {
        let mut best = (0.0, Self::Prometheus);
        for range in accept.split(',') {
            let mut parameters = range.split(';').map(str::trim);
            let format = match parameters.next() {
                Some("application/openmetrics-text") => Self::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Self::Prometheus,
                _ => continue,
            };
            // RFC 9110, section 12.4.2: the default weight is 1.
            let weight = parameters.filter_map(|parameter| parameter.strip_prefix("q=")).next();
            let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            // With equal weights, the more expressive format wins.
            if weight > best.0 || weight == best.0 && weight > 0.0 && format == Self::OpenMetrics {
                best = (weight, format);
            }
        }
        best.1
    }

    /// Returns the value for the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Formats families as text.
    pub fn write(self, families: &Families) -> String {
        let mut text = String::new();
        for (name, family) in families.iter() {
            self.family(&mut text, name, family);
        }
        if self == Self::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn family(self, text: &mut String, name: &str, family: &Family) {
        // In OpenMetrics, the family name of a counter lacks the suffix of its samples ("Counter").
        let family_name = match self {
            Self::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Self::Prometheus => name,
        };
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {family_name} {}.", escape(family.help, false));
        let _ = writeln!(text, "# TYPE {family_name} {kind}");
        for (labels, sample) in &family.samples {
            match sample {
                Sample::Number(value) => line(text, name, "", labels, None, *value),
                Sample::Histogram(histogram) => buckets(text, name, labels, histogram),
            }
        }
    }
}

fn buckets(text: &mut String, name: &str, labels: &Labels, histogram: &HistogramSnapshot) {
    for (end, below) in histogram.cumulative() {
        let end = end.map_or("+Inf".to_owned(), |end| end.as_secs_f64().to_string());
        line(text, name, "_bucket", labels, Some(&end), below as f64);
    }
    line(text, name, "_sum", labels, None, histogram.sum().as_secs_f64());
    line(text, name, "_count", labels, None, histogram.count() as f64);
}

fn line(text: &mut String, name: &str, suffix: &str, labels: &Labels, end: Option<&str>, value: f64) {
    let _ = write!(text, "{name}{suffix}");
    let end = end.map(|end| ("le", end));
    let mut labels = labels.iter().map(|(name, value)| (*name, value.as_str())).chain(end).peekable();
    if labels.peek().is_some() {
        text.push('{');
        for (index, (name, value)) in labels.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(text, "{comma}{name}=\"{}\"", escape(value, true));
        }
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

/// Escapes a description or, with `quotes`, a label value.
fn escape(text: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quotes => escaped.push_str("\\\""),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{BUCKETS, Histogram};
    use std::time::Duration;

    fn families() -> Families {
        let mut families = Families::default();
        let labels = || vec![("image", "a\"b\\c\nd".to_owned())];
        families.counter("onego_things_total", "Things", labels(), 3.0);
        families.counter("onego_things_total", "Things", labels(), 4.0);
        families.gauge("onego_now", "Now", Vec::new(), 0.5);
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(1));
        families.histogram("onego_seconds", "Seconds", Vec::new(), histogram.snapshot());
        families
    }

    #[test]
    fn both_formats_have_the_same_samples_but_different_names() {
        let (prometheus, open) =
            (Format::Prometheus.write(&families()), Format::OpenMetrics.write(&families()));
        let samples = |text: &str| {
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(samples(&prometheus), samples(&open));
        assert!(prometheus.contains("# TYPE onego_things_total counter\n"), "{prometheus}");
        assert!(
            open.contains("# TYPE onego_things counter\nonego_things_total{image=\"a\\\"b\\\\c\\nd\"} 7\n")
        );
        assert!(open.ends_with("# EOF\n") && !prometheus.contains("EOF"));
        assert!(open.contains("# HELP onego_now Now.\n# TYPE onego_now gauge\nonego_now 0.5\n"), "{open}");
    }

    #[test]
    fn histogram_buckets_are_cumulative() {
        let text = Format::Prometheus.write(&families());
        let buckets = text.lines().filter(|line| line.starts_with("onego_seconds_bucket"));
        let (below, from) = buckets.partition::<Vec<_>, _>(|line| line.ends_with(" 0"));
        assert_eq!(below.len() + from.len(), BUCKETS);
        assert_eq!(from[0], "onego_seconds_bucket{le=\"0.001048576\"} 1");
        assert_eq!(*from.last().unwrap(), "onego_seconds_bucket{le=\"+Inf\"} 1");
        assert!(text.contains("onego_seconds_sum 0.001\nonego_seconds_count 1\n"), "{text}");
    }

    #[test]
    fn the_accept_header_selects_the_format() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
            ("text/plain;version=0.0.4,application/openmetrics-text", Format::OpenMetrics),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.6", Format::Prometheus),
            ("application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.2", Format::OpenMetrics),
            ("application/openmetrics-text;q=much", Format::Prometheus),
        ] {
            assert_eq!(Format::of_accept(accept), format, "{accept}");
        }
    }
}
