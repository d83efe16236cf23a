//! SETATTR (RFC 1813, section 3.3.2).

use super::node::{Content, Id};
use super::{Context, FILE_MAX, Memory, Status};
use crate::rights::mode;
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
        let node = &self.nodes[id];
        cx.caller.may_set(set, node.guarded(), node.content.file_type())?;
        if set.size.is_some_and(|size| size > FILE_MAX) {
            return Err(Status::Fbig);
        }
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
}

/// Sets a time.
pub(super) fn set_time(time: &mut v3::Time, set: SetTime, now: v3::Time) {
    match set {
        SetTime::Leave => {}
        SetTime::ServerTime => *time = now,
        SetTime::To(to) => *time = to,
    }
}
