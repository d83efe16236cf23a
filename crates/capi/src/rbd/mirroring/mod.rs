//! What of a pool is mirrored, and to whom. Images are mirrored by Ceph's own programs.

mod attributes;
mod images;
mod old_peers;
mod pool;
mod sites;
