//! A directory of this machine as a file system.
//!
//! Files are reached by names in directories that are open, one name at a time, and none is followed or opened but as a
//! place (`system`), so that no link and no ".." leads out of the directory. What is known of a file is asked of the
//! system at each call: others may work on the directory, too. That is why nothing is said of files before a change.
//!
//! Handles are signed (`handles`) and last for as long as their files, where the system lets us open files by handles;
//! descriptors of what was used lately are kept (`table`). Files in file systems that are mounted below are not given.
//!
//! The system decides what callers may do: for each call the thread takes the caller's user, group and groups
//! ([`credentials`]), so that permission bits, ACLs, sticky directories, hard links, quotas, and the bits that a change
//! clears mean here what they mean to a local user, and new files belong to the caller from the start. The server's own
//! credentials are used only to find what a handle names (`as_server`), and for data where RFC 1813 wants more than the
//! permission bits give (`data`). A server that cannot change credentials acts as its own user for everybody.

mod data;
mod handles;
mod inodes;
pub(super) mod key;
mod names;
mod served;
mod system;
mod table;
#[cfg(test)]
mod tests;

pub use served::Directory;
