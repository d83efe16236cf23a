//! Metrics as they are read: the samples of Prometheus's text format.

use std::collections::BTreeMap;

/// The labels of a sample, by their names.
pub(super) type Labels = BTreeMap<String, String>;

/// What a process has told: samples by their names.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Samples {
    samples: BTreeMap<String, BTreeMap<Labels, f64>>,
}

impl Samples {
    /// Reads samples. Lines that are none are passed over.
    pub(super) fn read(text: &str) -> Self {
        let mut samples = BTreeMap::<String, BTreeMap<Labels, f64>>::new();
        for (name, labels, value) in text.lines().filter_map(sample) {
            samples.entry(name.to_owned()).or_default().insert(labels, value);
        }
        Self { samples }
    }

    /// The names of all samples.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.samples.keys().map(String::as_str)
    }

    /// The samples of a name, with their labels.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.samples.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// The sample with these labels.
    pub(super) fn get(&self, name: &str, labels: &Labels) -> Option<f64> {
        self.samples.get(name)?.get(labels).copied()
    }
}

/// Reads `name{label="value",...} value`.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    Some((name, labels, rest.split_whitespace().next()?.parse().ok()?))
}

/// Reads labels up to the brace behind them, and gives what follows.
fn labels(text: &str) -> Option<(Labels, &str)> {
    let (mut labels, mut rest) = (Labels::new(), text);
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, behind) = value(quoted)?;
        labels.insert(name.to_owned(), value);
        rest = behind;
    }
}

/// Reads a value up to the quote behind it, and gives what follows.
fn value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            character => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_metrics::{Families, Format};

    #[test]
    fn what_is_written_is_read() {
        let mut families = Families::default();
        let name = "a\"b\\c\nd},{e=\"";
        families.gauge("one", "One", vec![("image", name.to_owned()), ("kind", "x".into())], 0.25);
        families.counter("two_total", "Two", Vec::new(), 3e15);
        let samples = Samples::read(&Format::Prometheus.write(&families));
        let labels =
            [("image", name), ("kind", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(samples.get("one", &labels.into()), Some(0.25));
        assert_eq!(samples.get("two_total", &Labels::new()), Some(3e15));
        assert_eq!(samples.names().collect::<Vec<_>>(), ["one", "two_total"]);
    }

    #[test]
    fn what_is_no_sample_is_passed_over() {
        for line in ["", "# a{} 1", "a", "a{b=\"c 1", "a{b=c} 1", "a{b=\"c\\", "a{} x"] {
            assert_eq!(Samples::read(line), Samples::default(), "{line}");
        }
    }
}
