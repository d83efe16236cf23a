//! Progress of what says itself how much there is.

use onego_bench::report::progress::Progress;

pub(super) struct Bar(Progress);

impl Bar {
    pub(super) fn new(task: &str, shown: bool) -> Self {
        Self(Progress::of_bytes(task, Some(0), shown))
    }

    pub(super) fn at(&self, done: u64, all: u64) {
        self.0.of(all);
        self.0.at(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish();
    }
}
