//! Operation statistics by kind, for devices, clients and servers.

use crate::counter::Counter;
use crate::histogram::{Histogram, HistogramSnapshot};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Counters of one kind. They start on their own cache line, because neighboring memory may belong to another thread.
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

/// Counts operations for a single thread. It is not `Sync`, and nothing else writes to its counters.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Counts>,
    /// Prevents `Sync`: counters have a single owner.
    one_owner: PhantomData<Cell<()>>,
}

impl Recorder {
    /// Creates a recorder for the given kinds.
    pub fn new(names: &'static [&'static str]) -> Self {
        let kinds = names.iter().map(|_| KindCounters::default()).collect();
        let shared = Counts { names, kinds, in_flight: Counter::new() };
        Self { shared: Arc::new(shared), one_owner: PhantomData }
    }

    /// Starts an operation.
    #[inline]
    pub fn begin(&self) {
        self.shared.in_flight.add(1);
    }

    /// Drops a started operation without counting it.
    #[inline]
    pub fn forget(&self) {
        self.shared.in_flight.sub(1);
    }

    /// Finishes a started operation of the kind with index `kind`.
    ///
    /// # Panics
    /// If `kind` is out of range.
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

    /// Returns a handle that can read the counts on any thread.
    pub fn reader(&self) -> Reader {
        Reader { shared: Arc::clone(&self.shared) }
    }
}

/// Handle that reads the counts of a [`Recorder`].
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<Counts>,
}

impl Reader {
    /// Returns the current counts. Operations that finish concurrently may be counted partially.
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

/// Operation statistics at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationsSnapshot {
    /// Statistics of all kinds, including those without operations.
    pub kinds: Vec<KindSnapshot>,
    /// Number of operations in flight.
    pub in_flight: u64,
}

impl OperationsSnapshot {
    /// Returns the statistics of a kind; `None` if it does not exist.
    pub fn kind(&self, name: &str) -> Option<&KindSnapshot> {
        self.kinds.iter().find(|kind| kind.kind == name)
    }

    /// Adds the statistics of another snapshot, kind by kind.
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

/// Statistics of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindSnapshot {
    /// Name of the kind.
    pub kind: &'static str,
    /// Number of bytes transferred.
    pub bytes: u64,
    /// Number of failed operations. They are included in the latencies.
    pub errors: u64,
    /// Latencies; their count is the number of operations.
    pub latency: HistogramSnapshot,
}

impl KindSnapshot {
    /// Returns the number of finished operations.
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
