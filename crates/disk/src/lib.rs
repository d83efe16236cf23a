//! Files and block devices of this machine as [devices](onego_block::Device).
//!
//! - [`Disk`] is a file or block device that is open, locked, and never anything else: no pipe, no directory.
//! - [`Disks`] is the machine that carries requests out, on a bounded number of threads, so that the reactor never blocks.
//!
//! Threads, and no ring: a request of a disk may block in many calls (reads that miss the page cache, `fdatasync`,
//! `fallocate`, a search for holes), of which a ring does most on threads of the kernel's anyhow, and some not at all. The
//! threads work on every kernel and over every engine, and what they cost is small beside a disk: two wake-ups a request.
#![forbid(unsafe_code)]

mod disk;
mod disks;
mod error;
mod flushes;
mod operation;

pub use disk::Disk;
pub use disks::{DiskOpener, Disks};
pub use error::OpenError;
