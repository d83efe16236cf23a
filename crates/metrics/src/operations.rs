//! Operations by kind: what devices, clients and servers do for their callers.

use crate::counter::Counter;
use crate::histogram::{Histogram, HistogramSnapshot};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// What was counted of one kind. It begins on a cache line of its own: what lies beside it belongs to another thread, maybe.
#[derive(Debug, Default)]
#[repr(align(128))]
struct KindCounters {
    latency: Histogram,
    bytes: Counter,
    errors: Counter,
}

#[derive(Debug)]
struct Counts {
    names: &'static [&'static str],
    kinds: Box<[KindCounters]>,
    in_flight: Counter,
}

/// Counts operations. There is one for each thread that counts: it cannot be shared between threads, and what it counts into
/// belongs to it alone.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Counts>,
    /// Not `Sync`: counters have one owner.
    one_owner: PhantomData<Cell<()>>,
}

impl Recorder {
    /// Counts operations of kinds with these names.
    pub fn new(names: &'static [&'static str]) -> Self {
        let kinds = names.iter().map(|_| KindCounters::default()).collect();
        let shared = Counts { names, kinds, in_flight: Counter::new() };
        Self { shared: Arc::new(shared), one_owner: PhantomData }
    }

    /// One is in flight.
    #[inline]
    pub fn begin(&self) {
        self.shared.in_flight.add(1);
    }

    /// One that was in flight is not counted: it came to nothing.
    #[inline]
    pub fn forget(&self) {
        self.shared.in_flight.sub(1);
    }

    /// One that was in flight is done, and was of the kind that is `kind`th among the names.
    ///
    /// # Panics
    /// If there are fewer names.
    #[inline]
    pub fn end(&self, kind: usize, bytes: u64, took: Duration, has_failed: bool) {
        let kind = &self.shared.kinds[kind];
        kind.latency.record(took);
        kind.bytes.add(bytes);
        if has_failed {
            kind.errors.add(1);
        }
        self.shared.in_flight.sub(1);
    }

    /// Reads what is counted, on any thread.
    pub fn reader(&self) -> Reader {
        Reader { shared: Arc::clone(&self.shared) }
    }
}

/// Reads what a [`Recorder`] counts.
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<Counts>,
}

impl Reader {
    /// What was counted so far. Operations that end meanwhile may be counted in part.
    pub fn snapshot(&self) -> OperationsSnapshot {
        let Counts { names, kinds, in_flight } = &*self.shared;
        let kind = |(name, kind): (&&'static str, &KindCounters)| KindSnapshot {
            kind: name,
            bytes: kind.bytes.get(),
            errors: kind.errors.get(),
            latency: kind.latency.snapshot(),
        };
        OperationsSnapshot { kinds: names.iter().zip(kinds).map(kind).collect(), in_flight: in_flight.get() }
    }
}

/// What was counted of operations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationsSnapshot {
    /// By their kinds, also those of which there were none.
    pub kinds: Vec<KindSnapshot>,
    /// Operations that have begun and not ended.
    pub in_flight: u64,
}

impl OperationsSnapshot {
    /// What was counted of this kind; `None`: there is no such kind.
    pub fn kind(&self, name: &str) -> Option<&KindSnapshot> {
        self.kinds.iter().find(|kind| kind.kind == name)
    }

    /// Adds what another has counted of the same kinds.
    pub fn merge(&mut self, other: &Self) {
        self.in_flight += other.in_flight;
        for more in &other.kinds {
            match self.kinds.iter_mut().find(|kind| kind.kind == more.kind) {
                Some(kind) => kind.merge(more),
                None => self.kinds.push(more.clone()),
            }
        }
    }
}

/// What was counted of operations of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindSnapshot {
    /// The kind's name.
    pub kind: &'static str,
    /// Bytes that operations have moved.
    pub bytes: u64,
    /// Operations that have failed. They are counted among the latencies, too.
    pub errors: u64,
    /// How long operations took. Its count is their number.
    pub latency: HistogramSnapshot,
}

impl KindSnapshot {
    /// Operations that have ended.
    pub fn operations(&self) -> u64 {
        self.latency.count()
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_kind() {
        let recorder = Recorder::new(&["read", "write"]);
        let reader = recorder.reader();
        (0..4).for_each(|_| recorder.begin());
        recorder.end(0, 4096, Duration::from_micros(50), false);
        recorder.end(1, 512, Duration::from_micros(70), true);
        recorder.forget();
        let mut seen = std::thread::spawn(move || reader.snapshot()).join().unwrap();
        let read = seen.kind("read").unwrap();
        assert_eq!((read.operations(), read.bytes, read.errors), (1, 4096, 0));
        let write = seen.kind("write").unwrap();
        assert_eq!((write.operations(), write.bytes, write.errors, seen.in_flight), (1, 512, 1, 1));
        assert_eq!(seen.kind("trim"), None);
        let other = seen.clone();
        seen.merge(&other);
        assert_eq!((seen.kind("write").unwrap().errors, seen.in_flight), (2, 2));
    }
}
