//! CPU time of this process and others, in seconds.

use crate::row::Ends;
use std::fs;

/// Returns the CPU time of this process, all threads included.
pub fn own() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}

/// Returns the CPU time of another process, if it exists.
///
/// The scheduler's own count has nanoseconds, but covers only live threads; `stat` covers all, in hundredths of a
/// second. The result is the larger of both.
pub fn of(pid: u32) -> Option<f64> {
    let ticks = of_by_ticks(pid)?;
    Some(of_threads(pid).map_or(ticks, |threads| threads.max(ticks)))
}

fn of_threads(pid: u32) -> Option<f64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut nanos = 0_u64;
    for task in tasks.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        nanos += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(nanos as f64 / 1e9)
}

fn of_by_ticks(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain anything; utime and stime are the 12th and 13th field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Measures the CPU time of both ends from its creation.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    server: Option<u32>,
    before: Ends,
}

impl Meter {
    /// Starts to measure this process, and the server's, if it is known and on this machine.
    pub fn start(server: Option<u32>) -> Self {
        Self { server, before: Ends { client: Some(own()), server: server.and_then(of) } }
    }

    /// Returns the CPU time since the start.
    pub fn spent(&self) -> Ends {
        let since = |now: Option<f64>, before: Option<f64>| now.zip(before).map(|(now, before)| now - before);
        Ends {
            client: since(Some(own()), self.before.client),
            server: since(self.server.and_then(of), self.before.server),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counts_agree_on_this_process() {
        let meter = Meter::start(Some(std::process::id()));
        let end = own() + 0.2;
        while own() < end {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        let (own, by_stat) = (own(), of_by_ticks(std::process::id()).unwrap());
        assert!((own - by_stat).abs() < 0.1, "{own} against {by_stat}");
        assert!((of(std::process::id()).unwrap() - own).abs() < 0.1);
        assert!(meter.spent().client.unwrap() >= 0.2, "{:?}", meter.spent());
    }

    #[test]
    fn a_process_that_is_gone_has_no_count() {
        assert_eq!(of(u32::MAX), None);
        assert_eq!(Meter::start(None).spent().server, None);
    }
}
