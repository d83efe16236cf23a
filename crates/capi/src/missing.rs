//! What Ceph's libraries do and this one does not. Such a call answers EOPNOTSUPP, and says once on standard error which function was
//! called.

use crate::border::Errno;
use crate::runtime::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that a function was called, the first time.
pub(crate) fn say(name: &str, is_said: &AtomicBool) {
    if !is_said.swap(true, Ordering::Relaxed) {
        eprintln!("onego: {name} is not supported yet");
    }
}

/// The error for a call that would have to mirror an image. Said once for each function.
pub(crate) fn no_mirroring(function: &'static str) -> Errno {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if lock(&SAID).insert(function) {
        eprintln!("onego: {function} is not supported yet where images are mirrored");
    }
    Errno::NOTSUP
}

/// Functions that return a number, whatever its width, or nothing. Their arguments are not looked at.
macro_rules! numbers {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i64 {
            static IS_SAID: AtomicBool = AtomicBool::new(false);
            say(stringify!($name), &IS_SAID);
            -i64::from(libc::EOPNOTSUPP)
        }
    )* };
}

numbers! {
    rbd_migration_prepare_import
}
