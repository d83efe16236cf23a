//! Memory that another process changes at any time: that of a virtual machine, and what a server shares with its peer.
//!
//! - [`Window`] is a range of shared memory. Nothing ever makes a reference to its bytes: they are copied out and in, and
//!   single values are loaded and stored atomically.
//! - [`GuestMemory`] is the memory of a guest by its addresses: regions of files that the guest's owner shares.
//!
//! # When the owner shrinks a file
//!
//! To touch a page of a mapping behind the end of its file kills the process (`SIGBUS`). A region is mapped only if its file
//! is long enough, and its file is sealed against shrinking (`F_SEAL_SHRINK`), which any memfd made with `MFD_ALLOW_SEALING` can
//! be: QEMU's are. Files that have no seals (a file on a tmpfs or on hugetlbfs) are mapped all the same, with a warning:
//! their owner, not the guest, can end the server by shrinking them.

mod guest;
mod mapping;
mod window;

pub use guest::{GuestMemory, MemoryError, Region};
pub use mapping::MapError;
pub use window::Window;
