//! Files and block devices of this machine as [devices](onego_block::Device).
//!
//! - [`Disk`] is a file or block device that is open, locked, and never anything else: no pipe, no directory.
//! - [`Container`] is a disk in a qcow2 file, and [`FileFormat`] tells such files from those whose bytes are the disk's.
//! - [`Disks`] is the machine that carries requests out, on a bounded number of threads, so that the reactor never blocks.
//!
//! Threads, and no ring: a request of a disk may block in many calls (reads that miss the page cache, `fdatasync`,
//! `fallocate`, a search for holes), of which a ring does most on threads of the kernel's anyhow, and some not at all. The
//! threads work on every kernel and over every engine, and what they cost is small beside a disk: two wake-ups a request.
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
