use onego_wire::Time;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// Returns the time: that of the wall clock at the process's first call, advanced by the monotonic clock. It never runs
/// backwards and is the same in all threads.
pub fn now() -> Time {
    static ANCHOR: OnceLock<(Instant, Time)> = OnceLock::new();
    let (start, epoch) = ANCHOR.get_or_init(|| {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), Time::default() + wall)
    });
    *epoch + start.elapsed()
}

/// Returns the CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec.unsigned_abs() as u32)
}

pub(crate) fn pause(time: Duration) {
    thread_local! {
        static PRECISE: Cell<bool> = const { Cell::new(false) };
    }
    // By default the kernel may extend a thread's sleep by 50 us (timer slack).
    if !PRECISE.replace(true) {
        // A longer pause is harmless.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
    std::thread::sleep(time);
}
