//! What the layers above a block device cost: I/Os that go down whole, and I/Os that are cut to pieces of a page with a header
//! each.
//!
//! The opponent of our containers and plugs is built here, for this measurement alone: `elevator` is one global sorted queue of
//! headers, as kernels had it.

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
