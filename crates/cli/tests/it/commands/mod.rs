//! The program's commands, as people type them.

mod bench;
mod cp;
mod export;
mod formats;
mod images;
mod incomplete;
mod interrupted;
mod lifecycle;
mod map;
mod metrics;
mod nfs_copies;
mod nfs_names;
mod nfs_onto_itself;
mod nfs_other_servers;
mod nfs_rdma;
mod nfs_remove;
mod nfs_slashes;
mod nfs_waiting;
mod objects;
mod own_files;
mod partial_files;
mod snapshots;
mod synced;
mod wrong_lines;
