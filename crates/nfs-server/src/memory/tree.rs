//! The table of inodes, and what they may take.

use super::directory::{Directory, Id};
use super::node::{Content, NODE_BYTES, Node};
use super::permissions::InodePermissions;
use crate::file_system::Context;
use crate::procedures::inodes::Use;
use onego_buf::{Pool, Segment, SegmentMut};
use onego_nfs::v3::{self, Status};
use onego_wire::Time;
use slab::Slab;

/// A run of zeros, from which holes are read.
const ZEROS: usize = 64 << 10;

/// How much may be in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory for data and names.
    pub bytes: u64,
    /// Files of all types.
    pub files: u64,
}

/// A file system in memory.
pub struct Memory {
    pub(super) nodes: Slab<Node>,
    pub(super) root: Id,
    /// Tells this file system and its handles from others.
    pub(super) instance: u64,
    last_fileid: u64,
    /// When the last change was made, in nanoseconds.
    last_change: u64,
    pub(super) limits: Limits,
    /// Bytes in use.
    pub(super) used: u64,
    pub(super) pool: Pool,
    pub(super) zeros: Segment,
}

impl Memory {
    /// An empty file system: a root that everybody may write to. `instance` differs from that of all other file systems;
    /// memory for large writes comes from `pool`.
    pub fn new(limits: Limits, instance: u64, pool: Pool, now: Time) -> Self {
        let mut fs = Self {
            nodes: Slab::new(),
            root: 0,
            instance,
            last_fileid: 0,
            last_change: 0,
            limits,
            used: 0,
            pool,
            zeros: SegmentMut::zeroed(ZEROS).freeze(),
        };
        let now = fs.stamp(now);
        let root = fs.nodes.vacant_key();
        let content = Content::Directory(Directory::new(root));
        // Sticky, as any directory for everybody.
        let permissions = InodePermissions { mode: 0o1777, uid: 0, gid: 0, is_dir: true };
        fs.root = fs.add_node(permissions, now, content);
        fs
    }

    pub(super) fn add_node(&mut self, permissions: InodePermissions, now: v3::Time, content: Content) -> Id {
        let InodePermissions { mode, uid, gid, is_dir } = permissions;
        self.last_fileid += 1;
        self.used += NODE_BYTES + content.bytes();
        let (fileid, links) = (self.last_fileid, if is_dir { 2 } else { 1 });
        let (atime, mtime, ctime) = (now, now, now);
        self.nodes.insert(Node { fileid, mode, links, uid, gid, atime, mtime, ctime, content })
    }

    /// The time of a change: no two have the same.
    pub(super) fn stamp(&mut self, now: Time) -> v3::Time {
        self.last_change = now.as_nanos().max(self.last_change + 1);
        time(self.last_change)
    }

    pub(super) fn demand(&self, cx: Context<'_>, wanted: Use, id: Id) -> Result<(), Status> {
        if self.nodes[id].permissions().permit(cx.caller, wanted) { Ok(()) } else { Err(Status::Access) }
    }

    /// Is there room for `bytes` more bytes?
    pub(super) fn room(&self, bytes: u64) -> Result<(), Status> {
        let fits = self.used.checked_add(bytes).is_some_and(|used| used <= self.limits.bytes);
        if fits { Ok(()) } else { Err(Status::Nospc) }
    }
}

#[inline]
pub(super) fn time(nanos: u64) -> v3::Time {
    const SECOND: u64 = 1_000_000_000;
    // The protocol's seconds end in 2106.
    let seconds = u32::try_from(nanos / SECOND).unwrap_or(u32::MAX);
    v3::Time { seconds, nanoseconds: (nanos % SECOND) as u32 }
}
