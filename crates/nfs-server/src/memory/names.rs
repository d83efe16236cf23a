//! The names in directories.

use super::data::set_time;
use super::directory::{Directory, Id, PARENT_COOKIE, SELF_COOKIE, entry_bytes};
use super::node::{Content, NODE_BYTES, Regular};
use super::permissions::InodePermissions;
use super::tree::{Memory, time};
use crate::file_system::Context;
use crate::procedures::inodes::{Entry, Inodes as _, Listed, Names, New, NewKind, Removal, Use};
use crate::procedures::limits::LINK_MAX;
use onego_nfs::v3::{self, FileType, Status, Verifier};

impl Names for Memory {
    /// A cookie is valid for as long as the directory exists, and that goes with the file system.
    fn cookie_verifier(&self) -> Verifier {
        self.instance.to_be_bytes()
    }

    fn parent(&self, cx: Context<'_>, dir: &Id) -> Result<Id, Status> {
        self.enter(cx, *dir).map(|directory| directory.parent)
    }

    fn entry(&self, cx: Context<'_>, dir: &Id, name: &[u8]) -> Result<Id, Status> {
        self.enter(cx, *dir)?.get(name).ok_or(Status::Noent)
    }

    fn list(
        &mut self,
        cx: Context<'_>,
        dir: &Id,
        cookie: u64,
        mut take: impl FnMut(&Self, Listed<'_, Id>) -> bool,
    ) -> Result<(), Status> {
        self.demand(cx, Use::Read, *dir)?;
        let directory = self.nodes[*dir].directory()?;
        let may_look_up = self.permits(cx, dir, Use::Execute);
        let dots = [(SELF_COOKIE, &b"."[..], *dir), (PARENT_COOKIE, &b".."[..], directory.parent)];
        let dots = dots.into_iter().filter(|(own, ..)| *own > cookie);
        for (cookie, name, id) in dots.chain(directory.behind(cookie.max(PARENT_COOKIE))) {
            let (fileid, inode) = (self.nodes[id].fileid, may_look_up.then_some(id));
            if !take(self, Listed { cookie, name, fileid, inode }) {
                break;
            }
        }
        let node = &mut self.nodes[*dir];
        if node.atime <= node.mtime {
            node.atime = time(cx.now.as_nanos());
        }
        Ok(())
    }

    fn target(&self, link: &Id) -> Result<Vec<u8>, Status> {
        match &self.nodes[*link].content {
            Content::Symlink(text) => Ok(text.to_vec()),
            _ => Err(Status::Inval),
        }
    }

    fn make(&mut self, cx: Context<'_>, dir: &Id, name: &[u8], new: New) -> Result<Id, Status> {
        let dir = *dir;
        self.check_free(cx, dir, name)?;
        let New { kind, mode, set } = new;
        let content = match kind {
            NewKind::Regular => {
                Content::Regular(Regular { size: set.size.unwrap_or(0), ..Regular::default() })
            }
            NewKind::Directory => Content::Directory(Directory::new(dir)),
            NewKind::Symlink(text) => Content::Symlink(text.into()),
            NewKind::Special(FileType::CharacterDevice | FileType::BlockDevice, _)
                if !cx.caller.is_root() =>
            {
                return Err(Status::Perm);
            }
            NewKind::Special(file_type, device) => Content::Special(file_type, device),
        };
        self.room(NODE_BYTES + content.bytes() + entry_bytes(name))?;
        if self.nodes.len() as u64 >= self.limits.files {
            return Err(Status::Nospc);
        }
        let is_dir = matches!(content, Content::Directory(_));
        let parent = self.nodes[dir].permissions();
        let permissions = InodePermissions::of_new(cx.caller, &set, mode, is_dir, parent);
        let now = self.stamp(cx.now);
        let id = self.add_node(permissions, now, content);
        set_time(&mut self.nodes[id].atime, set.atime, now);
        set_time(&mut self.nodes[id].mtime, set.mtime, now);
        self.change_names(dir, now, |directory| directory.insert(name, id));
        if is_dir {
            self.nodes[dir].links += 1;
        }
        Ok(id)
    }

    fn add_name(&mut self, cx: Context<'_>, id: &Id, (dir, name): Entry<'_, Id>) -> Result<(), Status> {
        let (id, dir) = (*id, *dir);
        self.check_free(cx, dir, name)?;
        if self.nodes[id].links >= LINK_MAX {
            return Err(Status::Mlink);
        }
        self.room(entry_bytes(name))?;
        let now = self.stamp(cx.now);
        self.change_names(dir, now, |directory| directory.insert(name, id));
        let node = &mut self.nodes[id];
        node.links += 1;
        node.ctime = now;
        Ok(())
    }

    fn remove_name(
        &mut self,
        cx: Context<'_>,
        (dir, name): Entry<'_, Id>,
        id: &Id,
        removal: Removal,
    ) -> Result<(), Status> {
        let (id, dir) = (*id, *dir);
        self.demand(cx, Use::Write, dir)?;
        self.check_sticky(cx, dir, id)?;
        match (removal, self.nodes[id].directory()) {
            (Removal::File, Err(_)) => {}
            (Removal::File, Ok(_)) => return Err(Status::Isdir),
            (Removal::Directory, Err(status)) => return Err(status),
            (Removal::Directory, Ok(directory)) if directory.is_empty() => self.nodes[dir].links -= 1,
            (Removal::Directory, Ok(_)) => return Err(Status::Notempty),
        }
        let now = self.stamp(cx.now);
        self.change_names(dir, now, |directory| directory.remove(name));
        self.drop_link(id, now);
        Ok(())
    }

    fn move_name(
        &mut self,
        cx: Context<'_>,
        (from_dir, from_name): Entry<'_, Id>,
        (to_dir, to_name): Entry<'_, Id>,
        id: &Id,
        target: Option<&Id>,
    ) -> Result<(), Status> {
        let (from_dir, to_dir, id, target) = (*from_dir, *to_dir, *id, target.copied());
        if target == Some(id) {
            // POSIX, rename(): two names of one file both stay.
            return Ok(());
        }
        self.check_move(cx, from_dir, to_dir, id, target)?;
        if target.is_none() {
            self.room(entry_bytes(to_name).saturating_sub(entry_bytes(from_name)))?;
        }
        let now = self.stamp(cx.now);
        self.change_names(from_dir, now, |directory| directory.remove(from_name));
        self.change_names(to_dir, now, |directory| directory.insert(to_name, id));
        self.nodes[id].ctime = now;
        if let Ok(directory) = self.nodes[id].directory_mut() {
            directory.parent = to_dir;
            self.nodes[from_dir].links -= 1;
            self.nodes[to_dir].links += u32::from(target.is_none());
        }
        if let Some(target) = target {
            self.drop_link(target, now);
        }
        Ok(())
    }

    /// Nothing here outlives the server.
    fn sync_name(&mut self, _: Context<'_>, _: &Id, _: Option<&Id>) -> Result<(), Status> {
        Ok(())
    }
}

impl Memory {
    /// The directory, if the caller may look up names in it.
    fn enter(&self, cx: Context<'_>, dir: Id) -> Result<&Directory, Status> {
        let directory = self.nodes[dir].directory()?;
        self.demand(cx, Use::Execute, dir)?;
        Ok(directory)
    }

    /// Is the name free, and may the caller give it?
    fn check_free(&self, cx: Context<'_>, dir: Id, name: &[u8]) -> Result<(), Status> {
        if self.enter(cx, dir)?.get(name).is_some() {
            return Err(Status::Exist);
        }
        self.demand(cx, Use::Write, dir)
    }

    /// Changes the names of a directory, and counts the bytes that they take.
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
        if node.links == 0 || node.permissions().is_dir {
            self.used -= NODE_BYTES + node.content.bytes();
            self.nodes.remove(id);
        }
    }

    fn check_sticky(&self, cx: Context<'_>, dir: Id, id: Id) -> Result<(), Status> {
        let may = self.nodes[dir].permissions().permit_removal(cx.caller, self.nodes[id].permissions());
        if may { Ok(()) } else { Err(Status::Perm) }
    }

    /// May the caller do that, and can it be done? The checks are in the order that Linux has.
    fn check_move(
        &self,
        cx: Context<'_>,
        from_dir: Id,
        to_dir: Id,
        id: Id,
        target: Option<Id>,
    ) -> Result<(), Status> {
        let is_dir = self.nodes[id].permissions().is_dir;
        if is_dir && self.is_within(to_dir, id) {
            return Err(Status::Inval);
        }
        if target.is_some_and(|target| self.is_within(from_dir, target)) {
            return Err(Status::Notempty);
        }
        self.demand(cx, Use::Write, from_dir)?;
        self.check_sticky(cx, from_dir, id)?;
        self.demand(cx, Use::Write, to_dir)?;
        let mut is_empty = true;
        if let Some(target) = target {
            self.check_sticky(cx, to_dir, target)?;
            match (is_dir, self.nodes[target].directory()) {
                (true, Err(status)) => return Err(status),
                (false, Ok(_)) => return Err(Status::Isdir),
                (true, Ok(directory)) => is_empty = directory.is_empty(),
                (false, Err(_)) => {}
            }
        }
        if is_dir && from_dir != to_dir {
            // Its ".." is changed.
            self.demand(cx, Use::Write, id)?;
        }
        if is_empty { Ok(()) } else { Err(Status::Notempty) }
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
