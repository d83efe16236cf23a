use onego_wire::Time;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::num::NonZeroU64;
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

/// Lets that time pass.
pub(crate) fn pause(time: Duration) {
    thread_local! {
        static PRECISE: Cell<bool> = const { Cell::new(false) };
    }
    // The kernel lets a thread sleep 50 us longer than asked for, unless the thread says what suits it.
    if !PRECISE.replace(true) {
        // A pause that is longer is one all the same.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
    std::thread::sleep(time);
}
