//! What a process counts about itself, and the text in which others read it.
//!
//! - [`Counter`] and [`Histogram`] have one owner, who counts without a lock, an allocation or a read-modify-write of shared
//!   memory. Any thread reads them.
//! - [`Recorder`] counts operations by kind: how many, their bytes, errors and latencies, and those in flight.
//! - [`Published`] is a snapshot that a thread makes when it is asked: of figures that it keeps in plain memory.
//! - [`Registry`] knows everything that is counted, and collects it as [`Families`].
//! - [`Format`] writes families as Prometheus's text or as OpenMetrics.
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
