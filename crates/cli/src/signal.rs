//! The signal that has asked the program to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};

/// Returns the signals by which people and machines ask a program to end. SIGHUP is left out where it is ignored, as under
/// `nohup`.
pub(crate) fn ending() -> Vec<i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP)).collect()
}

/// Returns whether this process ignores a signal (proc(5), `/proc/pid/status`).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The signal that came last; 0: none has.
static HEARD: AtomicI32 = AtomicI32::new(0);

/// Notes a signal.
pub(crate) fn note(signal: i32) {
    HEARD.store(signal, Ordering::SeqCst);
}

/// The signal that was noted; 0: none was.
pub(crate) fn heard() -> i32 {
    HEARD.load(Ordering::SeqCst)
}

/// Does the command end because nobody reads its output?
pub(crate) fn is_unread() -> bool {
    heard() == SIGPIPE
}

/// The code of a program that was asked to end: 128 and the signal's number, as a shell has it.
pub(crate) fn exit_code() -> u8 {
    128 + heard() as u8
}
