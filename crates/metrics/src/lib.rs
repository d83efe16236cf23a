//! Metrics of a process, and their text formats.
//!
//! - [`Counter`] and [`Histogram`] have a single owner, which updates them without locks, allocations or atomic
//!   read-modify-write operations. Any thread may read them.
//! - [`Recorder`] counts operations by kind: their number, bytes, errors, latencies, and those in flight.
//! - [`Published`] is a snapshot of data in a thread's plain memory, taken by that thread on request.
//! - [`Registry`] holds all sources of metrics, and collects them as [`Families`].
//! - [`Format`] formats families as Prometheus text or OpenMetrics.
#![forbid(unsafe_code)]

mod counter;
mod families;
mod format;
mod histogram;
mod operations;
mod published;
mod registry;

pub use counter::Counter;
pub use families::{Families, Family, FamilyKind, Labels, OperationNames, Sample};
pub use format::Format;
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot};
pub use operations::{KindSnapshot, OperationsSnapshot, Reader, Recorder};
pub use published::Published;
pub use registry::{Collect, Registry};
