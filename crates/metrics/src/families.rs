//! Metric families: named groups of labelled samples.

use crate::histogram::HistogramSnapshot;
use crate::operations::OperationsSnapshot;
use std::collections::BTreeMap;

/// The type of a family's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// Never decreases while the process runs.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Distribution of durations, in seconds.
    Histogram,
}

/// Labels of a sample: names and values, in output order.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    /// Value of a counter or a gauge.
    Number(f64),
    /// Value of a histogram.
    Histogram(Box<HistogramSnapshot>),
}

impl Sample {
    fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Number(sum), Self::Number(more)) => *sum += more,
            (Self::Histogram(sum), Self::Histogram(more)) => sum.merge(&more),
            // All samples of a family have the same type.
            (mine, other) => *mine = other,
        }
    }
}

/// Samples with the same metric name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Type of the samples.
    pub kind: FamilyKind,
    /// Description: a sentence without its full stop.
    pub help: &'static str,
    /// Samples by their labels.
    pub samples: BTreeMap<Labels, Sample>,
}

/// Metric families by name. Names of counters end in `_total`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Families {
    families: BTreeMap<&'static str, Family>,
}

impl Families {
    /// Adds to a counter.
    pub fn counter(&mut self, name: &'static str, help: &'static str, labels: Labels, value: f64) {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.add(name, help, FamilyKind::Counter, labels, Sample::Number(value));
    }

    /// Adds to a gauge.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, labels: Labels, value: f64) {
        self.add(name, help, FamilyKind::Gauge, labels, Sample::Number(value));
    }

    /// Sets a gauge to the minimum of its sources' values.
    pub fn lowest(&mut self, name: &'static str, help: &'static str, labels: Labels, value: f64) {
        let known = self.families.get(name).and_then(|family| family.samples.get(&labels));
        match known {
            Some(Sample::Number(known)) => self.gauge(name, help, labels, (value - known).min(0.0)),
            _ => self.gauge(name, help, labels, value),
        }
    }

    /// Adds to a histogram.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels,
        value: HistogramSnapshot,
    ) {
        self.add(name, help, FamilyKind::Histogram, labels, Sample::Histogram(Box::new(value)));
    }

    /// Adds operation statistics. Kinds without operations are omitted; the others get an additional label `kind`.
    pub fn operations(&mut self, names: &OperationNames, labels: &Labels, seen: &OperationsSnapshot) {
        for kind in seen.kinds.iter().filter(|kind| kind.operations() > 0) {
            let with_kind = || labels.iter().cloned().chain([("kind", kind.kind.to_owned())]).collect();
            self.histogram(names.latency.0, names.latency.1, with_kind(), kind.latency.clone());
            self.counter(names.bytes.0, names.bytes.1, with_kind(), kind.bytes as f64);
            self.counter(names.errors.0, names.errors.1, with_kind(), kind.errors as f64);
        }
        self.gauge(names.in_flight.0, names.in_flight.1, labels.clone(), seen.in_flight as f64);
    }

    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: FamilyKind,
        labels: Labels,
        sample: Sample,
    ) {
        let family =
            self.families.entry(name).or_insert_with(|| Family { kind, help, samples: BTreeMap::new() });
        match family.samples.get_mut(&labels) {
            Some(sum) => sum.merge(sample),
            None => drop(family.samples.insert(labels, sample)),
        }
    }

    /// Returns all families in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Family)> {
        self.families.iter().map(|(name, family)| (*name, family))
    }

    /// Returns the sum of a family's samples that have all these labels, possibly among others. Histograms contribute
    /// their counts.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let Some(family) = self.families.get(name) else { return 0.0 };
        let has =
            |of: &Labels| labels.iter().all(|(name, value)| of.iter().any(|(n, v)| n == name && v == value));
        let value = |sample: &Sample| match sample {
            Sample::Number(value) => *value,
            Sample::Histogram(histogram) => histogram.count() as f64,
        };
        family.samples.iter().filter(|(of, _)| has(of)).map(|(_, sample)| value(sample)).sum()
    }
}

/// Metric names of one set of operations, each with its description.
#[derive(Debug, Clone, Copy)]
pub struct OperationNames {
    /// Histogram of latencies.
    pub latency: (&'static str, &'static str),
    /// Counter of bytes.
    pub bytes: (&'static str, &'static str),
    /// Counter of errors.
    pub errors: (&'static str, &'static str),
    /// Gauge of operations in flight.
    pub in_flight: (&'static str, &'static str),
}
