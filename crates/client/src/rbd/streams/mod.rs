//! Images and diffs as streams in the formats of Ceph's `rbd`.

mod apply;
mod export;
mod export_diff;
mod import;
mod import_diff;
mod range_writer;

pub use export::ExportImage;
pub use export_diff::ExportDiff;
pub use import::{ImportImage, ImportOptions};
pub use import_diff::ImportDiff;
