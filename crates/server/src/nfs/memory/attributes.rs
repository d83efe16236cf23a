//! SETATTR (RFC 1813, section 3.3.2), by the rules of POSIX's chmod(), chown(), truncate() and utimensat().

use super::node::{Content, Id};
use super::{Context, FILE_MAX, Memory, Status};
use crate::nfs::rights::{Use, mode};
use onego_nfs::v3::{self, SetAttributes, SetTime};

impl Memory {
    /// Sets attributes: all of them, or none.
    pub(super) fn set_attributes(
        &mut self,
        cx: Context<'_>,
        id: Id,
        set: &SetAttributes,
        guard: Option<v3::Time>,
    ) -> Result<(), Status> {
        if guard.is_some_and(|ctime| ctime != self.nodes[id].ctime) {
            return Err(Status::NotSync);
        }
        self.may_set(cx, id, set)?;
        if *set == SetAttributes::default() {
            return Ok(());
        }
        let now = self.stamp(cx.now);
        if let Some(size) = set.size {
            self.resize(id, size, now)?;
            if !cx.caller.is_root() {
                self.nodes[id].drop_privileges();
            }
        }
        let node = &mut self.nodes[id];
        if set.uid.is_some() || set.gid.is_some() {
            node.drop_privileges();
        }
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        if let Some(bits) = set.mode {
            node.mode = bits & mode::ALL;
            // Who is not of a group cannot lend its rights.
            if !cx.caller.is_root() && !cx.caller.is_in(node.gid) {
                node.mode &= !mode::SET_GID;
            }
        }
        set_time(&mut node.atime, set.atime, now);
        set_time(&mut node.mtime, set.mtime, now);
        node.ctime = now;
        if let Content::Regular(file) = &mut node.content {
            file.verifier = None;
        }
        Ok(())
    }

    /// May the caller set these attributes, and can the file have them?
    fn may_set(&self, cx: Context<'_>, id: Id, set: &SetAttributes) -> Result<(), Status> {
        let node = &self.nodes[id];
        let (caller, guarded) = (cx.caller, node.guarded());
        let owns = caller.owns(guarded);
        if set.mode.is_some() && !owns {
            return Err(Status::Perm);
        }
        // Only root gives files away; owners may choose among their groups.
        if set.uid.is_some_and(|uid| !(caller.is_root() || owns && uid == node.uid)) {
            return Err(Status::Perm);
        }
        if set.gid.is_some_and(|gid| !(caller.is_root() || owns && (gid == node.gid || caller.is_in(gid)))) {
            return Err(Status::Perm);
        }
        if let Some(size) = set.size {
            match node.content {
                Content::Regular(_) => {}
                Content::Directory(_) => return Err(Status::Isdir),
                _ => return Err(Status::Inval),
            }
            if !caller.may_write_data(guarded) {
                return Err(Status::Access);
            }
            if size > FILE_MAX {
                return Err(Status::Fbig);
            }
        }
        let times = [set.atime, set.mtime];
        if times.iter().any(|time| matches!(time, SetTime::To(_))) && !owns {
            return Err(Status::Perm);
        }
        if times.contains(&SetTime::ServerTime) && !owns && !caller.may(Use::Write, guarded) {
            return Err(Status::Access);
        }
        const SECOND: u32 = 1_000_000_000;
        let is_time = |time: &SetTime| !matches!(time, SetTime::To(time) if time.nanoseconds >= SECOND);
        if times.iter().all(is_time) { Ok(()) } else { Err(Status::Inval) }
    }
}

/// Sets a time.
pub(super) fn set_time(time: &mut v3::Time, set: SetTime, now: v3::Time) {
    match set {
        SetTime::Leave => {}
        SetTime::ServerTime => *time = now,
        SetTime::To(to) => *time = to,
    }
}
