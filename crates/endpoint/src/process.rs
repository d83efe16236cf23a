//! Generic process metrics from procfs. Sources: Linux `Documentation/filesystems/proc.rst` and
//! `Documentation/scheduler/sched-stats.rst`; names: Prometheus `docs/instrumenting/writing_clientlibs.md`, "Process
//! metrics".

use onego_metrics::{Collect, Families};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Metrics of this process: CPU time by thread, memory and file descriptors.
#[derive(Debug, Default)]
pub struct ProcessFigures {
    threads: Mutex<Threads>,
}

/// CPU time by thread name; several threads may share one. The time of ended threads stays counted.
#[derive(Debug, Default)]
struct Threads {
    /// CPU time of live threads in nanoseconds.
    alive: BTreeMap<u32, (String, u64)>,
    /// CPU time of ended threads in nanoseconds.
    ended: BTreeMap<String, u64>,
}

impl Collect for ProcessFigures {
    fn collect(&self, families: &mut Families) {
        for (name, nanos) in self.threads.lock().unwrap_or_else(PoisonError::into_inner).look() {
            families.counter(
                "onego_thread_cpu_seconds_total",
                "CPU time used by threads with this name",
                vec![("thread", name)],
                nanos as f64 / 1e9,
            );
        }
        if let Some(cpu) = cpu_seconds() {
            let help = "CPU time used by the process";
            families.counter("process_cpu_seconds_total", help, Vec::new(), cpu);
        }
        if let Some(bytes) = resident_bytes() {
            let help = "Resident memory of the process";
            families.gauge("process_resident_memory_bytes", help, Vec::new(), bytes);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // Excludes the descriptor of this directory.
            let open = open.count().saturating_sub(1) as f64;
            families.gauge("process_open_fds", "Open file descriptors", Vec::new(), open);
        }
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        families.gauge("onego_build_info", "Version of Onego; always 1", version, 1.0);
    }
}

impl Threads {
    fn look(&mut self) -> BTreeMap<String, u64> {
        let alive = read_threads();
        for (id, (name, nanos)) in std::mem::replace(&mut self.alive, alive) {
            // Thread IDs are reused.
            if !self.alive.get(&id).is_some_and(|(now, used)| *now == name && *used >= nanos) {
                *self.ended.entry(name).or_default() += nanos;
            }
        }
        let mut sums = self.ended.clone();
        for (name, nanos) in self.alive.values() {
            *sums.entry(name.clone()).or_default() += nanos;
        }
        sums
    }
}

/// Returns the name and CPU time in nanoseconds of each live thread, by ID.
fn read_threads() -> BTreeMap<u32, (String, u64)> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let thread = |path: &Path| {
        let id = path.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(path.join("comm")).ok()?.trim_end().to_owned();
        let used = fs::read_to_string(path.join("schedstat")).ok()?;
        Some((id, (name, used.split(' ').next()?.parse().ok()?)))
    };
    tasks.filter_map(|task| thread(&task.ok()?.path())).collect()
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain spaces. The remaining fields start with the third (proc.rst, table 1-4).
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(14 - 3);
    let ticks = |field: &str| field.parse::<u64>().ok();
    let (user, system) = (ticks(fields.next()?)?, ticks(fields.next()?)?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn resident_bytes() -> Option<f64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin() {
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 30 {}
    }

    #[test]
    fn the_time_of_ended_threads_stays_counted() {
        let figures = ProcessFigures::default();
        let used = || {
            let mut families = Families::default();
            figures.collect(&mut families);
            families.sum("onego_thread_cpu_seconds_total", &[("thread", "busy")])
        };
        let (seen, look) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("busy".into());
        let (done, is_done) = std::sync::mpsc::channel();
        let thread = thread.spawn(move || {
            spin();
            done.send(()).unwrap();
            // Closed after the metrics have been read.
            let _ = look.recv();
        });
        is_done.recv().unwrap();
        let before = used();
        assert!((0.001..10.0).contains(&before), "{before}");
        drop(seen);
        thread.unwrap().join().unwrap();
        assert!(used() >= before && used() >= before, "reading twice changes nothing");
    }

    #[test]
    fn process_metrics_are_available() {
        let mut families = Families::default();
        ProcessFigures::default().collect(&mut families);
        for name in ["process_resident_memory_bytes", "process_open_fds", "onego_build_info"] {
            assert!(families.sum(name, &[]) >= 1.0, "{name}");
        }
    }
}
