//! Cost of the layers above a block device: I/Os that go down whole, compared with I/Os split into pages with a header
//! each.
//!
//! The competitor of our containers and plugs is built here only for this measurement: `elevator` is one global sorted
//! queue of headers, as kernels had it.

mod assembly;
mod bed;
mod callers;
mod elevator;
mod measure;
mod report;
mod route;
mod row;
mod way;

pub use bed::{DeviceKind, ImageCluster};
pub use callers::CallersLoad;
pub use measure::BlockPlan;
pub use report::{header, line, svg};
pub use row::BlockRow;
pub use way::Way;
