//! What pools have of images: their names, the trash, namespaces, groups, settings, sums.

mod config;
mod group_images;
mod group_snapshot_info;
mod group_snapshots;
mod groups;
mod list;
mod namespaces;
mod options;
mod settings;
mod stats;
mod trash;
