//! Whether tests take their long form: more seeds, more maps, longer loads.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set for tests of crates that are to take their long form.
pub(crate) const LONG: &str = "ONEGO_TEST_LONG";

/// Was the long form asked for on the command line?
static WANTED: AtomicBool = AtomicBool::new(false);

/// Notes what the command line asks for.
pub(crate) fn want(long: bool) {
    WANTED.store(long, Ordering::Relaxed);
}

/// Do scenarios take their long form?
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) || std::env::var_os(LONG).is_some()
}
