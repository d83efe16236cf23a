//! Images and what changed of them as streams, which Ceph's `rbd` reads and writes, too.

mod export;
mod export_diff;
mod range_writer;

pub use export::ExportImage;
pub use export_diff::ExportDiff;
