//! A directory of this machine as a file system.
//!
//! Files are reached by names in directories that are open, one name at a time. No name is followed, and it is opened only
//! as a place (`system`), so that no link and no ".." leads out of the directory. Each call asks the system about its files
//! anew, because others may work on the directory, too. For the same reason no attributes before a change are given.
//!
//! Handles are signed (`handles`) and last for as long as their files, where the system lets us open files by handles. The
//! descriptors of recently used files are kept (`table`). File systems that are mounted below are not served.
//!
//! The system decides what callers may do: for each call the thread takes the caller's user, group and groups
//! ([`credentials`](onego_engine::credentials)), so that permission bits, ACLs, sticky directories, hard links, quotas, and
//! the bits that a change clears mean here what they mean to a local user, and new files belong to the caller from the
//! start. The server's own credentials serve only to find the file of a handle (`served`), and for data where RFC 1813
//! allows more than the permission bits do (`data`). A server that cannot change credentials acts as its own user for all
//! callers.
//!
//! Changes are durable before their replies (`sync`), unless the directory is served without syncs.

mod data;
mod handles;
mod inodes;
pub(super) mod key;
mod names;
mod served;
mod sync;
mod system;
mod table;
#[cfg(test)]
mod tests;

pub use served::Directory;
