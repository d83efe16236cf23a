//! The commands about what changed of images, and about images as streams: the names, options and output are those of
//! Ceph's `rbd`.

mod diff;
mod disk_usage;
mod export_diff;
mod export_image;
mod import_diff;
mod import_image;
mod import_run;
mod merge_diff;
mod stream_file;

pub(super) use diff::{DiffCommand, diff};
pub(super) use disk_usage::{DiskUsageOptions, disk_usage};
pub(super) use export_diff::{ExportDiffOptions, export_diff};
pub(super) use export_image::export_image;
pub(super) use import_diff::{ImportDiffOptions, import_diff};
pub(super) use import_image::{StreamedImage, import_image};
pub(super) use merge_diff::{MergeDiffOptions, merge_diff};
