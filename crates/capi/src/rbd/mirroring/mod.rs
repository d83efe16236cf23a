//! What of a pool is mirrored, and to whom. Images are mirrored by Ceph's own programs.

mod actions;
mod attributes;
mod bootstrap;
mod config_key;
mod images;
mod lists;
mod old_peers;
mod pool;
mod sites;
mod status;
