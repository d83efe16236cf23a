use std::fmt;
use std::sync::Arc;

/// A hook called on the thread that drives a client: after the futures of all completions that arrived together have
/// been woken, and once more at the end. It must not block.
///
/// A future that is polled by its waker runs on that thread. The hook can do work once for all such futures, for
/// example wake another thread.
#[derive(Clone)]
pub struct TurnHook(Arc<dyn Fn() + Send + Sync>);

impl TurnHook {
    /// Creates a hook that calls `hook`.
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
