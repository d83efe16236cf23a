//! What callers may do to the files of the file system in memory, by their permission bits.

use crate::caller::Caller;
use crate::procedures::inodes::Use;
use crate::procedures::limits::MODE_ALL;
use onego_nfs::v3::{SetAttributes, SetTime, Status};

/// Bits of a mode (POSIX, `sys/stat.h`).
pub(super) mod mode {
    pub(crate) const SET_UID: u32 = 0o4000;
    pub(crate) const SET_GID: u32 = 0o2000;
    pub(crate) const STICKY: u32 = 0o1000;
    /// Execution by the group.
    pub(crate) const GROUP_EXECUTE: u32 = 0o010;
    /// Execution by anybody.
    pub(crate) const ANY_EXECUTE: u32 = 0o111;
}

/// The permission bits of a file that has changed hands, or that another user has written to: it gives nobody the rights
/// of its owner and group any more. Where the group may not execute it, the set-group-ID bit has another meaning.
pub(super) fn without_privileges(bits: u32) -> u32 {
    let gone = if bits & mode::GROUP_EXECUTE != 0 { mode::SET_UID | mode::SET_GID } else { mode::SET_UID };
    bits & !gone
}

/// The part of an inode that decides who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InodePermissions {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) is_dir: bool,
}

impl InodePermissions {
    /// Is the caller the owner, or root?
    #[inline]
    pub(super) fn owned_by(&self, caller: &Caller) -> bool {
        caller.is_root() || caller.uid == self.uid
    }

    /// Do the permission bits let the caller use the file in that way?
    #[inline]
    pub(super) fn permit(&self, caller: &Caller, wanted: Use) -> bool {
        if caller.is_root() {
            // A file that nobody may execute is no program.
            return self.is_dir || wanted != Use::Execute || self.mode & mode::ANY_EXECUTE != 0;
        }
        let shift = if caller.uid == self.uid {
            6
        } else if caller.is_in(self.gid) {
            3
        } else {
            0
        };
        self.mode >> shift & wanted as u32 != 0
    }

    /// May the caller, who may write to this directory, remove or replace that entry of it? In a sticky directory only the
    /// owners of file and directory may.
    pub(super) fn permit_removal(&self, caller: &Caller, file: Self) -> bool {
        self.mode & mode::STICKY == 0 || self.owned_by(caller) || file.owned_by(caller)
    }

    /// May the caller set these attributes, by the rules of chmod(), chown() and utimensat() of POSIX? The size is left
    /// out.
    pub(super) fn check_set(&self, caller: &Caller, set: &SetAttributes) -> Result<(), Status> {
        let owns = self.owned_by(caller);
        if set.mode.is_some() && !owns {
            return Err(Status::Perm);
        }
        // Only root gives files away; owners may choose among their groups.
        if set.uid.is_some_and(|uid| !(caller.is_root() || owns && uid == self.uid)) {
            return Err(Status::Perm);
        }
        let may_give = |gid| caller.is_root() || owns && (gid == self.gid || caller.is_in(gid));
        if set.gid.is_some_and(|gid| !may_give(gid)) {
            return Err(Status::Perm);
        }
        let times = [set.atime, set.mtime];
        if times.iter().any(|time| matches!(time, SetTime::To(_))) && !owns {
            return Err(Status::Perm);
        }
        if times.contains(&SetTime::ServerTime) && !owns && !self.permit(caller, Use::Write) {
            return Err(Status::Access);
        }
        Ok(())
    }

    /// The permissions of a file that the caller makes in the directory `parent`: its owners, and which of the wanted
    /// `bits` it gets.
    pub(super) fn of_new(
        caller: &Caller,
        set: &SetAttributes,
        bits: u32,
        is_dir: bool,
        parent: Self,
    ) -> Self {
        let inherits = parent.mode & mode::SET_GID != 0;
        let gid = if inherits { parent.gid } else { caller.gid };
        let (uid, gid) = if caller.is_root() {
            (set.uid.unwrap_or(caller.uid), set.gid.unwrap_or(gid))
        } else {
            // As with knfsd, the owners that other callers ask for do not count.
            (caller.uid, gid)
        };
        let mut mode = bits & MODE_ALL;
        if is_dir && inherits {
            mode |= mode::SET_GID;
        } else if !is_dir && !caller.is_root() && !caller.is_in(gid) {
            // A caller outside of a group cannot lend its rights.
            mode &= !mode::SET_GID;
        }
        Self { mode, uid, gid, is_dir }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mode: u32) -> InodePermissions {
        InodePermissions { mode, uid: 10, gid: 20, is_dir: false }
    }

    fn user(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, groups: vec![30] }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        // The owner is not helped by what others may.
        assert!(!file(0o077).permit(&user(10, 20), Use::Read));
        assert!(!file(0o707).permit(&user(11, 20), Use::Write));
        assert!(file(0o002).permit(&user(11, 21), Use::Write));
        assert!(InodePermissions { gid: 30, ..file(0o010) }.permit(&user(11, 21), Use::Execute));
    }

    #[test]
    fn root_may_everything_but_execute_what_is_no_program() {
        let root = user(0, 0);
        assert!(file(0).permit(&root, Use::Read) && file(0).permit(&root, Use::Write));
        assert!(!file(0o666).permit(&root, Use::Execute));
        assert!(file(0o001).permit(&root, Use::Execute));
        assert!(InodePermissions { is_dir: true, ..file(0) }.permit(&root, Use::Execute));
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let dir = InodePermissions { uid: 1, gid: 1, mode: 0o1777, is_dir: true };
        for (uid, may) in [(0, true), (1, true), (10, true), (11, false)] {
            assert_eq!(dir.permit_removal(&user(uid, 0), file(0o644)), may, "{uid}");
        }
        assert!(InodePermissions { mode: 0o777, ..dir }.permit_removal(&user(11, 0), file(0o644)));
    }
}
