use onego_wire::Time;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

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
