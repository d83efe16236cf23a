//! What a program does after each turn of a client's thread.

use std::fmt;
use std::sync::Arc;

/// Called on the thread that drives a client, after all that arrived together has woken its futures, and once more at the end. It must
/// not block.
///
/// A future that is polled by its waker runs on that thread. What such futures have in common, as to wake another thread, can be done
/// here once for all of them.
#[derive(Clone)]
pub struct TurnHook(Arc<dyn Fn() + Send + Sync>);

impl TurnHook {
    /// A hook that calls `hook`.
    pub fn new(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for TurnHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TurnHook")
    }
}
