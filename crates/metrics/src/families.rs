//! Figures as they are told: families of samples, each with its labels.

use crate::histogram::HistogramSnapshot;
use crate::operations::OperationsSnapshot;
use std::collections::BTreeMap;

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// Grows, until the process ends.
    Counter,
    /// Comes and goes.
    Gauge,
    /// How often something took how long, in seconds.
    Histogram,
}

/// Labels of a sample: names and values, in the order in which they are written.
pub type Labels = Vec<(&'static str, String)>;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Histogram(Box<HistogramSnapshot>),
}

impl Sample {
    fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Number(sum), Self::Number(more)) => *sum += more,
            (Self::Histogram(sum), Self::Histogram(more)) => sum.merge(&more),
            // A family has one kind.
            (mine, other) => *mine = other,
        }
    }
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// What its samples are.
    pub kind: FamilyKind,
    /// What they say, in a sentence without its full stop.
    pub help: &'static str,
    /// By their labels.
    pub samples: BTreeMap<Labels, Sample>,
}

/// All that there is to tell, by the names of the families. The name of a counter ends in `_total`.
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

    /// Tells a gauge of which the lowest of several sources counts.
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

    /// Adds what was counted of operations, each kind that there was under these labels and its own.
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

    /// All families, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Family)> {
        self.families.iter().map(|(name, family)| (*name, family))
    }

    /// The sum of the samples of a family that have these labels, maybe among others: numbers, or how many a histogram has
    /// counted.
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

/// The names under which operations of one side are told, each with what it says.
#[derive(Debug, Clone, Copy)]
pub struct OperationNames {
    /// The histogram of latencies.
    pub latency: (&'static str, &'static str),
    /// The counter of bytes.
    pub bytes: (&'static str, &'static str),
    /// The counter of errors.
    pub errors: (&'static str, &'static str),
    /// The gauge of operations in flight.
    pub in_flight: (&'static str, &'static str),
}
