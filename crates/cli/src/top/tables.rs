//! What is shown of an interval: tables for people, JSON for programs.

use super::activity::{Activity, Operations, ThreadTime};
use crate::failure::Failure;
use crate::size;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The lines of a process.
pub(super) fn lines(addr: SocketAddr, seen: &Result<Option<Activity>, Failure>) -> Vec<String> {
    let activity = match seen {
        Ok(Some(activity)) => activity,
        Ok(None) => return vec![format!("{addr}: it is looked at for the first time")],
        Err(failure) => return vec![failure.sentence()],
    };
    let resident = activity.resident.map(|bytes| format!(", {} of memory", size::human(bytes as u64)));
    let mut lines = vec![format!("{addr}{}", resident.unwrap_or_default())];
    lines.push(format!(
        "  {:<10}  {:<24}  {:<12}  {:>10}  {:>12}  {:>8}  {:>9}  {:>9}",
        "SIDE", "OF", "KIND", "OPS/S", "BYTES/S", "ERRORS/S", "P50", "P99"
    ));
    lines.extend(activity.operations.iter().map(|operations| {
        let Operations { side, of, kind, count, bytes, errors, p50, p99 } = operations;
        let bytes = size::human(*bytes as u64);
        let (p50, p99) = (latency(*p50), latency(*p99));
        format!(
            "  {side:<10}  {of:<24}  {kind:<12}  {count:>10.0}  {bytes:>12}  {errors:>8.0}  {p50:>9}  {p99:>9}"
        )
    }));
    lines.push(format!("  {:<16}  {:>6}", "THREAD", "CPU"));
    lines.extend(activity.threads.iter().map(|ThreadTime { name, processors }| {
        let percent = processors * 100.0;
        format!("  {name:<16}  {percent:>5.1}%")
    }));
    lines
}

/// A latency in three digits, or so.
fn latency(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.2} s"),
    }
}

/// A process in one line of JSON.
pub(super) fn json(addr: SocketAddr, seen: &Result<Option<Activity>, Failure>) -> Value {
    let address = addr.to_string();
    let activity = match seen {
        Ok(Some(activity)) => activity,
        Ok(None) => return json!({ "address": address }),
        Err(failure) => return json!({ "address": address, "error": failure.sentence() }),
    };
    let operations = activity.operations.iter().map(|operations| {
        json!({
            "side": operations.side,
            "of": operations.of,
            "kind": operations.kind,
            "operations_per_second": operations.count,
            "bytes_per_second": operations.bytes,
            "errors_per_second": operations.errors,
            "p50_seconds": operations.p50,
            "p99_seconds": operations.p99,
        })
    });
    let threads = activity.threads.iter();
    let threads = threads.map(|thread| json!({ "thread": thread.name, "processors": thread.processors }));
    json!({
        "address": address,
        "resident_bytes": activity.resident,
        "operations": operations.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_short() {
        let texts = [None, Some(12e-6), Some(1.24e-3), Some(2.5)].map(latency);
        assert_eq!(texts, ["-", "12 µs", "1.2 ms", "2.50 s"]);
    }
}
