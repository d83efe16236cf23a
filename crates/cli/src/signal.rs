//! The signal that has asked the program to end.

use signal_hook::consts::{SIGINT, SIGPIPE, SIGTERM};
use std::sync::atomic::{AtomicI32, Ordering};

/// The signals by which people and machines ask a program to end.
pub(crate) const ENDING: [i32; 2] = [SIGINT, SIGTERM];

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
