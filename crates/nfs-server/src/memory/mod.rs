//! A file system in memory.
//!
//! Files are nodes in one table (`tree`, `node`), and names are in directories (`directory`). The operations on inodes are
//! sorted by what they work on: the inodes themselves (`inodes`), bytes and attributes (`data`), and names (`names`).
//! Permission bits decide what callers may do (`permissions`).
//!
//! A handle says which file system it belongs to, which is another at each start, which place in the table, and which
//! file: a file that is gone is never taken for the one that has its place now. Every change has a time of its own, so
//! that a client can tell any two states of a file by its ctime.

mod data;
mod directory;
mod inodes;
mod names;
mod node;
mod permissions;
#[cfg(test)]
mod tests;
mod tree;

pub use tree::{Limits, Memory};
