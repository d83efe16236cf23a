//! Local files and block devices as [devices](onego_block::Device).
//!
//! - [`Disk`] is an open and locked file or block device; pipes, directories and other files are rejected.
//! - [`Container`] is a disk in a qcow2 file; [`FileFormat`] tells such files from raw ones.
//! - [`Disks`] is the state machine that executes requests on a bounded number of threads, so that the reactor never
//!   blocks.
//!
//! The implementation uses threads instead of a ring: disk requests may block in many system calls (reads that miss the
//! page cache, `fdatasync`, `fallocate`, hole searches), most of which a ring executes on kernel threads anyway, and
//! some not at all. Threads work with every kernel and engine, and their cost, two wake-ups per request, is small
//! compared with a disk's.
#![forbid(unsafe_code)]

mod container;
mod disk;
mod disks;
mod error;
mod flushes;
mod format;
mod operation;

pub use container::{Backing, Container};
pub use disk::Disk;
pub use disks::{DiskOpener, Disks};
pub use error::OpenError;
pub use format::FileFormat;
