//! What a process did between two looks.

use super::samples::{Labels, Samples};
use std::time::Duration;

/// What the name of a histogram of latencies ends in.
const LATENCY: [&str; 2] = ["_request_duration_seconds_bucket", "_call_duration_seconds_bucket"];

/// What a process did in an interval.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Activity {
    pub(super) operations: Vec<Operations>,
    pub(super) threads: Vec<ThreadTime>,
    /// Bytes of its memory that are in RAM.
    pub(super) resident: Option<f64>,
}

/// Operations of one kind.
#[derive(Debug, PartialEq)]
pub(super) struct Operations {
    /// On which side they are counted: `cluster`, `export`, `client`, `nfs` or `nfs_client`.
    pub(super) side: String,
    /// What they are to: a pool or an export.
    pub(super) of: String,
    pub(super) kind: String,
    /// Each a second.
    pub(super) count: f64,
    pub(super) bytes: f64,
    pub(super) errors: f64,
    /// What half of them, and 99 of 100, took at most, in seconds; nothing if there were none.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

/// Processors that threads of one name used.
#[derive(Debug, PartialEq)]
pub(super) struct ThreadTime {
    pub(super) name: String,
    /// 1: one processor all the time.
    pub(super) processors: f64,
}

impl Activity {
    /// What happened in that time, from one look to the next.
    pub(super) fn between(before: &Samples, after: &Samples, time: Duration) -> Self {
        let seconds = time.as_secs_f64().max(1e-9);
        let rate = |name: &str, labels: &Labels| increase(before, after, name, labels) / seconds;
        let mut operations = Vec::new();
        for name in after.names() {
            let Some(side) = LATENCY.iter().find_map(|end| name.strip_prefix("onego_")?.strip_suffix(end))
            else {
                continue;
            };
            let infinite = |(labels, _): &(&Labels, f64)| labels.get("le").is_some_and(|le| le == "+Inf");
            for (labels, _) in after.of(name).filter(infinite) {
                let mut labels = labels.clone();
                labels.remove("le");
                let buckets = buckets(before, after, name, &labels);
                let of = |name: &str| rate(&format!("onego_{side}_{name}_total"), &labels);
                operations.push(Operations {
                    side: side.to_owned(),
                    of: place(&labels),
                    kind: labels.get("kind").cloned().unwrap_or_default(),
                    count: buckets.last().map_or(0.0, |(_, below)| *below) / seconds,
                    bytes: of("bytes"),
                    errors: of("errors"),
                    p50: quantile(&buckets, 0.5),
                    p99: quantile(&buckets, 0.99),
                });
            }
        }
        let cpu = "onego_thread_cpu_seconds_total";
        let threads = after.of(cpu).map(|(labels, _)| ThreadTime {
            name: labels.get("thread").cloned().unwrap_or_default(),
            processors: rate(cpu, labels),
        });
        let threads = threads.collect();
        let resident = after.get("process_resident_memory_bytes", &Labels::new());
        Self { operations, threads, resident }
    }
}

/// What operations are to: their labels but the kind.
fn place(labels: &Labels) -> String {
    let of = ["pool", "export"].iter().find_map(|name| labels.get(*name));
    of.map(String::as_str).unwrap_or_default().to_owned()
}

/// By how much a counter has grown. One that is less than before began again.
fn increase(before: &Samples, after: &Samples, name: &str, labels: &Labels) -> f64 {
    let now = after.get(name, labels).unwrap_or(0.0);
    let then = before.get(name, labels).filter(|then| *then <= now).unwrap_or(0.0);
    now - then
}

/// The ends of buckets, and how many more there are below, in order.
fn buckets(before: &Samples, after: &Samples, name: &str, labels: &Labels) -> Vec<(f64, f64)> {
    let is_of = |of: &Labels| {
        of.len() == labels.len() + 1 && labels.iter().all(|(name, value)| of.get(name) == Some(value))
    };
    let bucket = |(of, _): (&Labels, f64)| {
        let end = of.get("le")?.parse().ok()?;
        Some((end, increase(before, after, name, of)))
    };
    let mut buckets: Vec<(f64, f64)> =
        after.of(name).filter(|(of, _)| is_of(of)).filter_map(bucket).collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    buckets
}

/// What this share of all stayed below: inside the bucket in which that is, a line is assumed, as Prometheus does.
fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let (_, count) = buckets.last().filter(|(_, count)| *count > 0.0)?;
    let rank = share * count;
    let at = buckets.iter().position(|(_, below)| *below >= rank)?;
    let (start, before) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (end, below) = buckets[at];
    if end.is_infinite() {
        return Some(start);
    }
    let within = if below > before { (rank - before) / (below - before) } else { 1.0 };
    Some(start + (end - start) * within)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
onego_export_request_duration_seconds_bucket{export=\"e\",kind=\"read\",le=\"0.001\"} 10
onego_export_request_duration_seconds_bucket{export=\"e\",kind=\"read\",le=\"0.002\"} 10
onego_export_request_duration_seconds_bucket{export=\"e\",kind=\"read\",le=\"+Inf\"} 10
onego_export_bytes_total{export=\"e\",kind=\"read\"} 4096
onego_thread_cpu_seconds_total{thread=\"t\"} 5
";

    const AFTER: &str = "\
onego_export_request_duration_seconds_bucket{export=\"e\",kind=\"read\",le=\"0.001\"} 60
onego_export_request_duration_seconds_bucket{export=\"e\",kind=\"read\",le=\"0.002\"} 110
onego_export_request_duration_seconds_bucket{export=\"e\",kind=\"read\",le=\"+Inf\"} 110
onego_export_bytes_total{export=\"e\",kind=\"read\"} 14096
onego_thread_cpu_seconds_total{thread=\"t\"} 6
process_resident_memory_bytes 1000
";

    #[test]
    fn rates_and_latencies_are_those_of_the_interval() {
        let (before, after) = (Samples::read(BEFORE), Samples::read(AFTER));
        let Activity { operations, threads, resident } =
            Activity::between(&before, &after, Duration::from_secs(2));
        let [Operations { side, of, kind, count, bytes, errors, p50, p99 }] = &operations[..] else {
            panic!("{operations:?}")
        };
        assert_eq!((side.as_str(), of.as_str(), kind.as_str()), ("export", "e", "read"));
        assert_eq!((*count, *bytes, *errors), (50.0, 5000.0, 0.0));
        assert_eq!(*p50, Some(0.001));
        assert!(p99.is_some_and(|p99| (p99 - 0.00198).abs() < 1e-9), "{p99:?}");
        assert_eq!(threads, [ThreadTime { name: "t".into(), processors: 0.5 }]);
        assert_eq!(resident, Some(1000.0));
    }

    #[test]
    fn a_process_that_was_started_again_has_done_what_it_tells() {
        let (before, after) = (Samples::read(AFTER), Samples::read(BEFORE));
        let activity = Activity::between(&before, &after, Duration::from_secs(1));
        assert_eq!((activity.operations[0].count, activity.threads[0].processors), (10.0, 5.0));
    }

    #[test]
    fn without_operations_there_are_no_latencies() {
        let samples = Samples::read(AFTER);
        let activity = Activity::between(&samples, &samples, Duration::from_secs(1));
        assert_eq!((activity.operations[0].p50, activity.operations[0].count), (None, 0.0));
    }
}
