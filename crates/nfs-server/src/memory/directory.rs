//! The names in a directory.
//!
//! Each name has a cookie, a number that grows with every name that is added and that is never used again. A client
//! that lists a directory goes on behind the last cookie it has seen, whatever was removed or added in between: a name
//! that is there all the time is listed exactly once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The place of a node in the table.
pub(super) type Id = usize;

/// The cookies of "." and "..", which every listing begins with.
pub(super) const SELF_COOKIE: u64 = 1;
pub(super) const PARENT_COOKIE: u64 = 2;

/// Bytes that a name is assumed to cost beside itself: its places in two maps, and the allocator's share.
const ENTRY_BYTES: u64 = 128;

/// The names in a directory.
pub(super) struct Directory {
    /// The directory that it is in; the root is in itself.
    pub(super) parent: Id,
    // Names come from clients, so that this map's order must not be foreseeable.
    by_name: HashMap<Arc<[u8]>, u64>,
    by_cookie: BTreeMap<u64, DirectoryEntry>,
    last_cookie: u64,
    bytes: u64,
}

/// A name.
struct DirectoryEntry {
    name: Arc<[u8]>,
    node: Id,
}

/// Bytes that a name takes in a directory.
pub(super) fn entry_bytes(name: &[u8]) -> u64 {
    ENTRY_BYTES + name.len() as u64
}

impl Directory {
    pub(super) fn new(parent: Id) -> Self {
        Self {
            parent,
            by_name: HashMap::new(),
            by_cookie: BTreeMap::new(),
            last_cookie: PARENT_COOKIE,
            bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Bytes of memory that the names take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Id> {
        let cookie = self.by_name.get(name)?;
        self.by_cookie.get(cookie).map(|entry| entry.node)
    }

    /// Gives a node a name. A name that is there stays at its place, and is the new node's.
    pub(super) fn insert(&mut self, name: &[u8], node: Id) {
        if let Some(cookie) = self.by_name.get(name)
            && let Some(entry) = self.by_cookie.get_mut(cookie)
        {
            entry.node = node;
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.last_cookie += 1;
        self.bytes += entry_bytes(&name);
        self.by_name.insert(Arc::clone(&name), self.last_cookie);
        self.by_cookie.insert(self.last_cookie, DirectoryEntry { name, node });
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.by_name.remove(name) {
            self.by_cookie.remove(&cookie);
            self.bytes -= entry_bytes(name);
        }
    }

    /// Names behind a cookie, with their cookies.
    pub(super) fn behind(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], Id)> {
        let entries = self.by_cookie.range(cookie.saturating_add(1)..);
        entries.map(|(cookie, entry)| (*cookie, &*entry.name, entry.node))
    }
}
