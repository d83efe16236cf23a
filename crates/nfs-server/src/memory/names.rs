//! Names: finding, giving, changing and removing them.

use super::attributes::set_time;
use super::directory::{Directory, entry_bytes};
use super::node::{Content, Id, NODE_BYTES, Regular};
use super::{Context, FILE_MAX, Handle, LINK_MAX, Memory, Results, Status};
use crate::name::{check_name, is_dots};
use crate::rights::{Use, check_values};
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, Change, CreateHow, CreateOk, Failed, FileType, LinkChange, Node, RenameChange, SetAttributes,
};

/// Permission bits of a file that an exclusive CREATE makes: its attributes follow by SETATTR.
const EXCLUSIVE_MODE: u32 = 0o600;

impl Memory {
    /// The directory at a path from the root. Whoever mounts it need not be let in there yet.
    pub(super) fn walk(&mut self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let found = names.into_iter().try_fold(self.root, |dir, name| self.look_up(cx, dir, name));
        match found {
            Ok(id) if self.nodes[id].directory().is_ok() => Ok(self.handle(id)),
            Ok(_) | Err(Status::Notdir) => Err(MountStatus::Notdir),
            Err(Status::Access) => Err(MountStatus::Access),
            Err(Status::Nametoolong) => Err(MountStatus::Nametoolong),
            Err(_) => Err(MountStatus::Noent),
        }
    }

    /// The directory, if the caller may look up names in it.
    fn enter(&self, cx: Context<'_>, dir: Id) -> Result<&Directory, Status> {
        let directory = self.nodes[dir].directory()?;
        self.demand(cx, Use::Execute, dir)?;
        Ok(directory)
    }

    pub(super) fn look_up(&self, cx: Context<'_>, dir: Id, name: &[u8]) -> Result<Id, Status> {
        let directory = self.enter(cx, dir)?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(directory.parent),
            name => {
                check_name(name)?;
                directory.get(name).ok_or(Status::Noent)
            }
        }
    }

    /// Can the caller give that name to something in the directory?
    fn check_new(&self, cx: Context<'_>, dir: Id, name: &[u8]) -> Result<(), Status> {
        let directory = self.enter(cx, dir)?;
        check_name(name)?;
        if is_dots(name) || directory.get(name).is_some() {
            return Err(Status::Exist);
        }
        self.demand(cx, Use::Write, dir)
    }

    /// Tells what a call has made.
    pub(super) fn created(&self, id: Id, dir: Change) -> CreateOk {
        CreateOk { file: Some(self.handle(id)), attributes: Some(self.attributes_of(id)), dir }
    }

    /// CREATE (RFC 1813, section 3.3.8).
    pub(super) fn create_regular(
        &mut self,
        cx: Context<'_>,
        dir: Id,
        name: &[u8],
        how: &CreateHow,
    ) -> Result<Id, Status> {
        let directory = self.enter(cx, dir)?;
        if let Some(there) = directory.get(name) {
            let file = self.nodes[there].regular().map_err(|_| Status::Exist)?;
            return match how {
                CreateHow::Unchecked(set) => {
                    // What is there keeps its attributes, but for the size.
                    let set = SetAttributes { size: set.size, ..SetAttributes::default() };
                    self.set_attributes(cx, there, &set, None)?;
                    Ok(there)
                }
                CreateHow::Exclusive(verifier) if file.verifier == Some(*verifier) => Ok(there),
                CreateHow::Guarded(_) | CreateHow::Exclusive(_) => Err(Status::Exist),
            };
        }
        let mut file = Regular::default();
        let exclusive = SetAttributes { mode: Some(EXCLUSIVE_MODE), ..SetAttributes::default() };
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => set,
            CreateHow::Exclusive(verifier) => {
                file.verifier = Some(*verifier);
                &exclusive
            }
        };
        file.size = set.size.unwrap_or(0);
        if file.size > FILE_MAX {
            return Err(Status::Fbig);
        }
        self.make(cx, dir, name, set, Content::Regular(file))
    }

    /// MKNOD (RFC 1813, section 3.3.11).
    pub(super) fn make_special(
        &mut self,
        cx: Context<'_>,
        dir: Id,
        name: &[u8],
        what: &Node,
    ) -> Result<Id, Status> {
        let (set, content) = match what {
            Node::Character(set, device) => (set, Content::Device(FileType::CharacterDevice, *device)),
            Node::Block(set, device) => (set, Content::Device(FileType::BlockDevice, *device)),
            Node::Socket(set) => (set, Content::Socket),
            Node::Fifo(set) => (set, Content::Fifo),
            Node::Other(_) => return Err(Status::Badtype),
        };
        self.enter(cx, dir)?;
        if matches!(content, Content::Device(..)) && !cx.caller.is_root() {
            return Err(Status::Perm);
        }
        self.make(cx, dir, name, set, content)
    }

    /// Makes a file of any type under a name that nothing has.
    pub(super) fn make(
        &mut self,
        cx: Context<'_>,
        dir: Id,
        name: &[u8],
        set: &SetAttributes,
        content: Content,
    ) -> Result<Id, Status> {
        check_values(set)?;
        self.check_new(cx, dir, name)?;
        self.room(NODE_BYTES + content.bytes() + entry_bytes(name))?;
        if self.nodes.len() as u64 >= self.limits.files {
            return Err(Status::Nospc);
        }
        let bits = set.mode.unwrap_or(content.default_mode());
        let is_dir = matches!(content, Content::Directory(_));
        let guarded = cx.caller.makes(set, bits, is_dir, self.nodes[dir].guarded());
        let now = self.stamp(cx.now);
        let id = self.add_node(guarded, now, content);
        set_time(&mut self.nodes[id].atime, set.atime, now);
        set_time(&mut self.nodes[id].mtime, set.mtime, now);
        self.change_names(dir, now, |directory| directory.insert(name, id));
        if guarded.is_dir {
            self.nodes[dir].links += 1;
        }
        Ok(id)
    }

    /// Does something to the names of a directory, and counts what they take.
    fn change_names(&mut self, dir: Id, now: v3::Time, change: impl FnOnce(&mut Directory)) {
        let node = &mut self.nodes[dir];
        if let Ok(directory) = node.directory_mut() {
            let before = directory.bytes();
            change(directory);
            self.used = self.used - before + directory.bytes();
        }
        node.modified(now);
    }

    /// A file loses a name, and with the last one it is gone.
    fn drop_link(&mut self, id: Id, now: v3::Time) {
        let node = &mut self.nodes[id];
        node.links -= 1;
        node.ctime = now;
        if node.links == 0 || node.guarded().is_dir {
            self.used -= NODE_BYTES + node.content.bytes();
            self.nodes.remove(id);
        }
    }

    /// What has that name, if the caller may take it away.
    fn removable(&self, cx: Context<'_>, dir: Id, name: &[u8]) -> Result<Id, Status> {
        let id = self.look_up(cx, dir, name)?;
        self.demand(cx, Use::Write, dir)?;
        self.check_sticky(cx, dir, id)?;
        Ok(id)
    }

    fn check_sticky(&self, cx: Context<'_>, dir: Id, id: Id) -> Result<(), Status> {
        let may = cx.caller.may_unlink(self.nodes[dir].guarded(), self.nodes[id].guarded());
        if may { Ok(()) } else { Err(Status::Perm) }
    }

    /// REMOVE.
    pub(super) fn unlink(&mut self, cx: Context<'_>, dir: Id, name: &[u8]) -> Result<(), Status> {
        if is_dots(name) {
            return Err(Status::Inval);
        }
        let id = self.removable(cx, dir, name)?;
        if self.nodes[id].guarded().is_dir {
            return Err(Status::Isdir);
        }
        let now = self.stamp(cx.now);
        self.change_names(dir, now, |directory| directory.remove(name));
        self.drop_link(id, now);
        Ok(())
    }

    /// RMDIR.
    pub(super) fn unlink_directory(&mut self, cx: Context<'_>, dir: Id, name: &[u8]) -> Result<(), Status> {
        match name {
            // Section 3.3.13 of RFC 1813.
            b"." => return Err(Status::Inval),
            b".." => return Err(Status::Exist),
            _ => {}
        }
        let id = self.removable(cx, dir, name)?;
        if !self.nodes[id].directory()?.is_empty() {
            return Err(Status::Notempty);
        }
        let now = self.stamp(cx.now);
        self.change_names(dir, now, |directory| directory.remove(name));
        self.nodes[dir].links -= 1;
        self.drop_link(id, now);
        Ok(())
    }

    /// LINK.
    pub(super) fn add_link(&mut self, cx: Context<'_>, file: &Handle, link: &v3::Place) -> Results<v3::Link> {
        let failed = |status| Failed { status, more: LinkChange::default() };
        let id = self.find(file).map_err(failed)?;
        let linked = self.change(&link.dir, |fs, dir| {
            if fs.nodes[id].guarded().is_dir {
                return Err(Status::Perm);
            }
            fs.check_new(cx, dir, &link.name.0)?;
            if fs.nodes[id].links >= LINK_MAX {
                return Err(Status::Mlink);
            }
            fs.room(entry_bytes(&link.name.0))?;
            let now = fs.stamp(cx.now);
            fs.change_names(dir, now, |directory| directory.insert(&link.name.0, id));
            let node = &mut fs.nodes[id];
            node.links += 1;
            node.ctime = now;
            Ok(())
        });
        let file = Some(self.attributes_of(id));
        match linked {
            Ok((dir, ())) => Ok(LinkChange { file, dir }),
            Err(Failed { status, more: dir }) => Err(Failed { status, more: LinkChange { file, dir } }),
        }
    }

    /// RENAME.
    pub(super) fn move_entry(
        &mut self,
        cx: Context<'_>,
        from: &v3::Place,
        to: &v3::Place,
    ) -> Results<v3::Rename> {
        let both = |from, to| RenameChange { from, to };
        let inner = |fs: &mut Self, from_dir| {
            let rename =
                |fs: &mut Self, to_dir| fs.rename_in(cx, (from_dir, &from.name.0), (to_dir, &to.name.0));
            // The status of the inner change is carried out beside its attributes.
            Ok(match fs.change(&to.dir, rename) {
                Ok((change, ())) => (change, Ok(())),
                Err(Failed { status, more }) => (more, Err(status)),
            })
        };
        match self.change(&from.dir, inner) {
            Ok((from, (to, Ok(())))) => Ok(both(from, to)),
            Ok((from, (to, Err(status)))) => Err(Failed { status, more: both(from, to) }),
            Err(Failed { status, more }) => Err(Failed { status, more: both(more, Change::default()) }),
        }
    }

    fn rename_in(&mut self, cx: Context<'_>, from: (Id, &[u8]), to: (Id, &[u8])) -> Result<(), Status> {
        let ((from_dir, from_name), (to_dir, to_name)) = (from, to);
        if is_dots(from_name) || is_dots(to_name) {
            return Err(Status::Inval);
        }
        let id = self.look_up(cx, from_dir, from_name)?;
        let target = match self.look_up(cx, to_dir, to_name) {
            // Two names of one file: POSIX, rename(), leaves both.
            Ok(target) if target == id => return Ok(()),
            Ok(target) => Some(target),
            Err(Status::Noent) => None,
            Err(status) => return Err(status),
        };
        self.check_rename(cx, from_dir, to_dir, id, target)?;
        if target.is_none() {
            self.room(entry_bytes(to_name).saturating_sub(entry_bytes(from_name)))?;
        }
        let now = self.stamp(cx.now);
        self.change_names(from_dir, now, |directory| directory.remove(from_name));
        self.change_names(to_dir, now, |directory| directory.insert(to_name, id));
        self.nodes[id].ctime = now;
        let is_dir = self.nodes[id].guarded().is_dir;
        if let Ok(directory) = self.nodes[id].directory_mut() {
            directory.parent = to_dir;
        }
        if is_dir {
            self.nodes[from_dir].links -= 1;
            self.nodes[to_dir].links += u32::from(target.is_none());
        }
        if let Some(target) = target {
            self.drop_link(target, now);
        }
        Ok(())
    }

    /// May the caller do that, and can it be done?
    fn check_rename(
        &self,
        cx: Context<'_>,
        from_dir: Id,
        to_dir: Id,
        id: Id,
        target: Option<Id>,
    ) -> Result<(), Status> {
        let is_dir = self.nodes[id].guarded().is_dir;
        if is_dir && self.is_within(to_dir, id) {
            return Err(Status::Inval);
        }
        self.demand(cx, Use::Write, from_dir)?;
        self.demand(cx, Use::Write, to_dir)?;
        self.check_sticky(cx, from_dir, id)?;
        if is_dir && from_dir != to_dir {
            // Its ".." is changed.
            self.demand(cx, Use::Write, id)?;
        }
        let Some(target) = target else { return Ok(()) };
        self.check_sticky(cx, to_dir, target)?;
        match (is_dir, self.nodes[target].directory()) {
            (true, Err(_)) => Err(Status::Notdir),
            (false, Ok(_)) => Err(Status::Isdir),
            (true, Ok(directory)) if !directory.is_empty() => Err(Status::Notempty),
            _ => Ok(()),
        }
    }

    /// Is a directory the other one, or somewhere in it?
    fn is_within(&self, mut dir: Id, outer: Id) -> bool {
        loop {
            if dir == outer {
                return true;
            }
            match self.nodes[dir].directory() {
                Ok(directory) if directory.parent != dir => dir = directory.parent,
                _ => return false,
            }
        }
    }
}
