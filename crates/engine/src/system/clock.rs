use onego_wire::Time;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// The time: the wall clock when it was first asked for in this process, and from there on the monotonic clock, so
/// that it never runs backwards and is the same in all threads.
pub fn now() -> Time {
    static ANCHOR: OnceLock<(Instant, Time)> = OnceLock::new();
    let (start, epoch) = ANCHOR.get_or_init(|| {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), Time::default() + wall)
    });
    *epoch + start.elapsed()
}

/// Processor time of the thread that asks.
pub fn thread_cpu() -> Duration {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec.unsigned_abs() as u32)
}
