//! A file system in memory.
//!
//! Files are nodes in one table (`node`); names are in directories (`directory`). The procedures are sorted by what they
//! work on: names (`names`), listings (`listing`), attributes (`attributes`) and bytes (`data`).
//!
//! A handle says which file system it belongs to, which is another at each start, which place in the table, and which
//! file: a file that is gone is never taken for the one that has its place now. Every change has a time of its own, so
//! that a client can tell any two states of a file by its ctime.

mod attributes;
mod data;
mod directory;
mod listing;
mod names;
mod node;
#[cfg(test)]
mod tests;

use super::budget::LISTING_MAX;
use super::file_system::{Context, FileSystem, Results};
use super::name::NAME_MAX;
use super::rights::{Guarded, Use};
use directory::Directory;
use node::{Content, Id, NODE_BYTES, Node};
use onego_buf::{Pool, Segment, SegmentMut};
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, Attributes, Change, Failed, FsinfoOk, FsstatOk, Handle, PathconfOk, Status, properties,
};
use onego_wire::Time;
use slab::Slab;

/// Most bytes of a file: what signed offsets can say.
const FILE_MAX: u64 = i64::MAX as u64;
/// Most hard links to a file, as with ext4.
const LINK_MAX: u32 = 65_000;
/// Most bytes of a READ and of a WRITE: what Linux asks for at most.
pub(crate) const TRANSFER_MAX: usize = 1 << 20;
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
    nodes: Slab<Node>,
    root: Id,
    /// Tells this file system from others, and its handles from theirs.
    instance: u64,
    last_fileid: u64,
    /// When the last change was made, in nanoseconds.
    last_change: u64,
    limits: Limits,
    /// Bytes in use.
    used: u64,
    pool: Pool,
    zeros: Segment,
}

impl Memory {
    /// An empty file system: a root that everybody may write to. `instance` tells it from all others; memory for large
    /// writes comes from `pool`.
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
        fs.root = fs.add_node(Guarded { mode: 0o1777, uid: 0, gid: 0, is_dir: true }, now, content);
        fs
    }

    fn add_node(&mut self, guarded: Guarded, now: v3::Time, content: Content) -> Id {
        let Guarded { mode, uid, gid, is_dir } = guarded;
        self.last_fileid += 1;
        self.used += NODE_BYTES + content.bytes();
        let (fileid, links) = (self.last_fileid, if is_dir { 2 } else { 1 });
        let (atime, mtime, ctime) = (now, now, now);
        self.nodes.insert(Node { fileid, mode, links, uid, gid, atime, mtime, ctime, content })
    }

    /// The time of a change: no two have the same.
    fn stamp(&mut self, now: Time) -> v3::Time {
        self.last_change = now.as_nanos().max(self.last_change + 1);
        time(self.last_change)
    }

    /// The node that a handle names.
    #[inline]
    fn find(&self, handle: &Handle) -> Result<Id, Status> {
        let Some((instance, slot, fileid)) = parts(handle) else { return Err(Status::Badhandle) };
        let slot = slot as Id;
        let here =
            instance == self.instance && self.nodes.get(slot).is_some_and(|node| node.fileid == fileid);
        if here { Ok(slot) } else { Err(Status::Stale) }
    }

    fn handle(&self, id: Id) -> Handle {
        let mut bytes = [0; HANDLE_LEN];
        bytes[..8].copy_from_slice(&self.instance.to_be_bytes());
        bytes[8..12].copy_from_slice(&(id as u32).to_be_bytes());
        bytes[12..].copy_from_slice(&self.nodes[id].fileid.to_be_bytes());
        Handle::new(&bytes).expect("it is shorter than the longest")
    }

    #[inline]
    fn attributes_of(&self, id: Id) -> Attributes {
        self.nodes[id].attributes(self.instance)
    }

    /// Does something with a file, and tells its attributes whether it goes well or not.
    fn with<T>(
        &mut self,
        handle: &Handle,
        act: impl FnOnce(&mut Self, Id) -> Result<T, Status>,
    ) -> Result<(Attributes, T), Failed<Option<Attributes>>> {
        let id = self.find(handle).map_err(|status| Failed { status, more: None })?;
        match act(self, id) {
            Ok(value) => Ok((self.attributes_of(id), value)),
            Err(status) => Err(Failed { status, more: Some(self.attributes_of(id)) }),
        }
    }

    /// Changes a file, or what is in a directory, and tells what it was before and is afterwards.
    fn change<T>(
        &mut self,
        handle: &Handle,
        act: impl FnOnce(&mut Self, Id) -> Result<T, Status>,
    ) -> Result<(Change, T), Failed<Change>> {
        let id = self.find(handle).map_err(|status| Failed { status, more: Change::default() })?;
        let before = Some(self.attributes_of(id).before());
        let result = act(self, id);
        let change = Change { before, after: Some(self.attributes_of(id)) };
        match result {
            Ok(value) => Ok((change, value)),
            Err(status) => Err(Failed { status, more: change }),
        }
    }

    fn demand(&self, cx: Context<'_>, wanted: Use, id: Id) -> Result<(), Status> {
        if cx.caller.may(wanted, self.nodes[id].guarded()) { Ok(()) } else { Err(Status::Access) }
    }

    /// Is there room for so many more bytes?
    fn room(&self, bytes: u64) -> Result<(), Status> {
        let fits = self.used.checked_add(bytes).is_some_and(|used| used <= self.limits.bytes);
        if fits { Ok(()) } else { Err(Status::Nospc) }
    }
}

/// Bytes of a handle: the file system, the place in its table, and the file's number.
const HANDLE_LEN: usize = 20;

fn parts(handle: &Handle) -> Option<(u64, u32, u64)> {
    let bytes: &[u8; HANDLE_LEN] = handle.as_bytes().try_into().ok()?;
    let (instance, rest) = bytes.split_first_chunk()?;
    let (slot, fileid) = rest.split_first_chunk()?;
    Some((
        u64::from_be_bytes(*instance),
        u32::from_be_bytes(*slot),
        u64::from_be_bytes(fileid.try_into().ok()?),
    ))
}

fn time(nanos: u64) -> v3::Time {
    const SECOND: u64 = 1_000_000_000;
    // The protocol's seconds end in 2106.
    let seconds = u32::try_from(nanos / SECOND).unwrap_or(u32::MAX);
    v3::Time { seconds, nanoseconds: (nanos % SECOND) as u32 }
}

impl FileSystem for Memory {
    fn mount(&mut self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        self.walk(cx, path)
    }

    fn place(&mut self, len: usize) -> Option<SegmentMut> {
        // What is copied may as well arrive in the memory that small messages share: one system call for many.
        (len > onego_service::extents::COPY_MAX).then(|| self.pool.get(len))
    }

    fn getattr(&mut self, _: Context<'_>, file: Handle) -> Results<v3::Getattr> {
        let id = self.find(&file).map_err(|status| Failed { status, more: () })?;
        Ok(self.attributes_of(id))
    }

    fn setattr(&mut self, cx: Context<'_>, args: v3::SetattrArgs) -> Results<v3::Setattr> {
        let set = |fs: &mut Self, id| fs.set_attributes(cx, id, &args.attributes, args.guard);
        self.change(&args.file, set).map(|(change, ())| change)
    }

    fn lookup(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Lookup> {
        let (dir, id) = self.with(&place.dir, |fs, dir| fs.look_up(cx, dir, &place.name.0))?;
        Ok(v3::LookupOk { file: self.handle(id), attributes: Some(self.attributes_of(id)), dir: Some(dir) })
    }

    fn access(&mut self, cx: Context<'_>, args: v3::AccessArgs) -> Results<v3::Access> {
        let look = |fs: &mut Self, id: Id| Ok(cx.caller.access(args.wanted, fs.nodes[id].guarded()));
        let (attributes, granted) = self.with(&args.file, look)?;
        Ok(v3::AccessOk { attributes: Some(attributes), granted })
    }

    fn readlink(&mut self, _: Context<'_>, link: Handle) -> Results<v3::Readlink> {
        let (attributes, path) = self.with(&link, |fs, id| match &fs.nodes[id].content {
            Content::Symlink(path) => Ok(path.to_vec()),
            // Section 3.3.5 of RFC 1813.
            _ => Err(Status::Inval),
        })?;
        Ok(v3::ReadlinkOk { attributes: Some(attributes), path })
    }

    fn read(&mut self, cx: Context<'_>, args: v3::ReadArgs) -> Results<v3::Read> {
        let read = |fs: &mut Self, id| fs.read_data(cx, id, args.offset, args.count);
        let (attributes, (data, eof)) = self.with(&args.file, read)?;
        Ok(v3::ReadOk { attributes: Some(attributes), eof, data })
    }

    fn write(&mut self, cx: Context<'_>, args: v3::WriteArgs) -> Results<v3::Write> {
        let count = args.data.len() as u32;
        let write = |fs: &mut Self, id| fs.write_data(cx, id, args.offset, args.data);
        let (file, ()) = self.change(&args.file, write)?;
        // Memory is as durable as anything here ever is. What a client was not promised, it can commit.
        Ok(v3::WriteOk { file, count, committed: args.stable, verifier: self.instance.to_be_bytes() })
    }

    fn create(&mut self, cx: Context<'_>, args: v3::CreateArgs) -> Results<v3::Create> {
        let (dir, id) = self
            .change(&args.place.dir, |fs, dir| fs.create_regular(cx, dir, &args.place.name.0, &args.how))?;
        Ok(self.created(id, dir))
    }

    fn mkdir(&mut self, cx: Context<'_>, args: v3::MkdirArgs) -> Results<v3::Mkdir> {
        let (dir, id) = self.change(&args.place.dir, |fs, dir| {
            let content = Content::Directory(Directory::new(dir));
            fs.make(cx, dir, &args.place.name.0, &args.attributes, content)
        })?;
        Ok(self.created(id, dir))
    }

    fn symlink(&mut self, cx: Context<'_>, args: v3::SymlinkArgs) -> Results<v3::Symlink> {
        let (dir, id) = self.change(&args.place.dir, |fs, dir| {
            // POSIX, symlink(): a link that leads nowhere by having no text cannot be.
            if args.path.is_empty() {
                return Err(Status::Noent);
            }
            let content = Content::Symlink(args.path.into());
            fs.make(cx, dir, &args.place.name.0, &args.attributes, content)
        })?;
        Ok(self.created(id, dir))
    }

    fn mknod(&mut self, cx: Context<'_>, args: v3::MknodArgs) -> Results<v3::Mknod> {
        let (dir, id) =
            self.change(&args.place.dir, |fs, dir| fs.make_special(cx, dir, &args.place.name.0, &args.what))?;
        Ok(self.created(id, dir))
    }

    fn remove(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Remove> {
        self.change(&place.dir, |fs, dir| fs.unlink(cx, dir, &place.name.0)).map(|(change, ())| change)
    }

    fn rmdir(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Rmdir> {
        self.change(&place.dir, |fs, dir| fs.unlink_directory(cx, dir, &place.name.0))
            .map(|(change, ())| change)
    }

    fn rename(&mut self, cx: Context<'_>, args: v3::RenameArgs) -> Results<v3::Rename> {
        self.move_entry(cx, &args.from, &args.to)
    }

    fn link(&mut self, cx: Context<'_>, args: v3::LinkArgs) -> Results<v3::Link> {
        self.add_link(cx, &args.file, &args.link)
    }

    fn readdir(&mut self, cx: Context<'_>, args: v3::ReaddirArgs) -> Results<v3::Readdir> {
        self.list(cx, &args)
    }

    fn readdirplus(&mut self, cx: Context<'_>, args: v3::ReaddirplusArgs) -> Results<v3::Readdirplus> {
        self.list_plus(cx, &args)
    }

    fn fsstat(&mut self, _: Context<'_>, root: Handle) -> Results<v3::Fsstat> {
        let (attributes, ()) = self.with(&root, |_, _| Ok(()))?;
        let free_bytes = self.limits.bytes.saturating_sub(self.used);
        let free_files = self.limits.files.saturating_sub(self.nodes.len() as u64);
        Ok(FsstatOk {
            attributes: Some(attributes),
            total_bytes: self.limits.bytes,
            free_bytes,
            available_bytes: free_bytes,
            total_files: self.limits.files,
            free_files,
            available_files: free_files,
            invariant_seconds: 0,
        })
    }

    fn fsinfo(&mut self, _: Context<'_>, root: Handle) -> Results<v3::Fsinfo> {
        const PAGE: u32 = 4096;
        let (attributes, ()) = self.with(&root, |_, _| Ok(()))?;
        let transfer = TRANSFER_MAX as u32;
        Ok(FsinfoOk {
            attributes: Some(attributes),
            read_max: transfer,
            read_preferred: transfer,
            read_multiple: PAGE,
            write_max: transfer,
            write_preferred: transfer,
            write_multiple: PAGE,
            readdir_preferred: LISTING_MAX,
            file_max: FILE_MAX,
            time_delta: v3::Time { seconds: 0, nanoseconds: 1 },
            properties: properties::LINK
                | properties::SYMLINK
                | properties::HOMOGENEOUS
                | properties::CAN_SET_TIME,
        })
    }

    fn pathconf(&mut self, _: Context<'_>, file: Handle) -> Results<v3::Pathconf> {
        let (attributes, ()) = self.with(&file, |_, _| Ok(()))?;
        Ok(PathconfOk {
            attributes: Some(attributes),
            link_max: LINK_MAX,
            name_max: NAME_MAX as u32,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    }

    fn commit(&mut self, _: Context<'_>, args: v3::CommitArgs) -> Results<v3::Commit> {
        let (file, ()) = self.change(&args.file, |fs, id| fs.nodes[id].regular().map(drop))?;
        Ok(v3::CommitOk { file, verifier: self.instance.to_be_bytes() })
    }
}
