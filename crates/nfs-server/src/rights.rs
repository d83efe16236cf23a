//! What callers may do to the files of the file system in memory, by their permission bits.

use onego_nfs::v3::{Attributes, FileType, SetAttributes, SetTime, Status, access};

/// Bits of a mode (POSIX, `sys/stat.h`).
pub(crate) mod mode {
    /// All that a client may set.
    pub(crate) const ALL: u32 = 0o7777;
    pub(crate) const SET_UID: u32 = 0o4000;
    pub(crate) const SET_GID: u32 = 0o2000;
    pub(crate) const STICKY: u32 = 0o1000;
    /// Execution by the group.
    pub(crate) const GROUP_EXECUTE: u32 = 0o010;
    /// Execution by anybody.
    pub(crate) const ANY_EXECUTE: u32 = 0o111;
}

/// What has changed hands, or what somebody else has written to, gives nobody the rights of its owner and group any more.
/// Where the group may not execute it, the bit for the group means something else.
pub(crate) fn without_privileges(bits: u32) -> u32 {
    let gone = if bits & mode::GROUP_EXECUTE != 0 { mode::SET_UID | mode::SET_GID } else { mode::SET_UID };
    bits & !gone
}

/// The user or group that system calls take for "leave it as it is", and that POSIX gives to nobody.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Are there values among those to be set that no file can have, or that mean something else to a system call?
pub(crate) fn check_values(set: &SetAttributes) -> Result<(), Status> {
    const SECOND: u32 = 1_000_000_000;
    let is_time = |time: &SetTime| !matches!(time, SetTime::To(time) if time.nanoseconds >= SECOND);
    let are_ids = set.uid != Some(NO_ID) && set.gid != Some(NO_ID);
    if are_ids && [set.atime, set.mtime].iter().all(is_time) { Ok(()) } else { Err(Status::Inval) }
}

/// The user who may do everything.
const ROOT: u32 = 0;

/// The user and the group of those who do not say who they are, by convention.
pub const NOBODY: u32 = 65_534;

/// A user who makes calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its further groups.
    pub groups: Vec<u32>,
}

/// A way to use a file: one of the three permission bits, as the last digit of a mode has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read = 4,
    Write = 2,
    /// Of a directory: to look names up in it.
    Execute = 1,
}

/// What of a file decides about who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guarded {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) is_dir: bool,
}

impl From<&Attributes> for Guarded {
    fn from(file: &Attributes) -> Self {
        let is_dir = file.file_type == FileType::Directory;
        Self { mode: file.mode, uid: file.uid, gid: file.gid, is_dir }
    }
}

impl Caller {
    /// Somebody who does not say who he is.
    pub fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, groups: Vec::new() }
    }

    /// May the caller do everything?
    pub(crate) fn is_root(&self) -> bool {
        self.uid == ROOT
    }

    /// Is the caller of that group?
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Is the caller the owner, or root?
    pub(crate) fn owns(&self, file: Guarded) -> bool {
        self.is_root() || self.uid == file.uid
    }

    /// Do the permission bits let the caller use the file so?
    pub(crate) fn may(&self, wanted: Use, file: Guarded) -> bool {
        if self.is_root() {
            // What nobody at all may execute is no program.
            return file.is_dir || wanted != Use::Execute || file.mode & mode::ANY_EXECUTE != 0;
        }
        let shift = if self.uid == file.uid {
            6
        } else if self.is_in(file.gid) {
            3
        } else {
            0
        };
        file.mode >> shift & wanted as u32 != 0
    }

    /// May the caller read the bytes? Its system has checked the permission bits when it opened the file, which may have
    /// changed since: an owner may always read (RFC 1813, section 4.4). What is executed has to be read, too.
    pub(crate) fn may_read_data(&self, file: Guarded) -> bool {
        self.owns(file) || self.may(Use::Read, file) || self.may(Use::Execute, file)
    }

    /// May the caller write bytes? Owners may, for the same reason.
    pub(crate) fn may_write_data(&self, file: Guarded) -> bool {
        self.owns(file) || self.may(Use::Write, file)
    }

    /// May the caller remove or replace this entry of a directory, into which it may write? In a sticky directory only
    /// the owners of file and directory may.
    pub(crate) fn may_unlink(&self, dir: Guarded, file: Guarded) -> bool {
        dir.mode & mode::STICKY == 0 || self.owns(dir) || self.owns(file)
    }

    /// May the caller set these attributes, by the rules of chmod(), chown(), truncate() and utimensat() of POSIX, and can
    /// a file of that type have them?
    pub(crate) fn may_set(
        &self,
        set: &SetAttributes,
        file: Guarded,
        file_type: FileType,
    ) -> Result<(), Status> {
        let owns = self.owns(file);
        if set.mode.is_some() && !owns {
            return Err(Status::Perm);
        }
        // Only root gives files away; owners may choose among their groups.
        if set.uid.is_some_and(|uid| !(self.is_root() || owns && uid == file.uid)) {
            return Err(Status::Perm);
        }
        if set.gid.is_some_and(|gid| !(self.is_root() || owns && (gid == file.gid || self.is_in(gid)))) {
            return Err(Status::Perm);
        }
        match file_type {
            _ if set.size.is_none() => {}
            FileType::Regular if self.may_write_data(file) => {}
            FileType::Regular => return Err(Status::Access),
            FileType::Directory => return Err(Status::Isdir),
            _ => return Err(Status::Inval),
        }
        let times = [set.atime, set.mtime];
        if times.iter().any(|time| matches!(time, SetTime::To(_))) && !owns {
            return Err(Status::Perm);
        }
        if times.contains(&SetTime::ServerTime) && !owns && !self.may(Use::Write, file) {
            return Err(Status::Access);
        }
        check_values(set)
    }

    /// Whose a file is that the caller makes, and with which permission bits of those that are wanted.
    pub(crate) fn makes(&self, set: &SetAttributes, bits: u32, is_dir: bool, parent: Guarded) -> Guarded {
        let inherits = parent.mode & mode::SET_GID != 0;
        let gid = if inherits { parent.gid } else { self.gid };
        let (uid, gid) = if self.is_root() {
            (set.uid.unwrap_or(self.uid), set.gid.unwrap_or(gid))
        } else {
            (self.uid, set.gid.filter(|gid| !inherits && self.is_in(*gid)).unwrap_or(gid))
        };
        let mut mode = bits & mode::ALL;
        if is_dir && inherits {
            mode |= mode::SET_GID;
        } else if !is_dir && !self.is_root() && !self.is_in(gid) {
            // Who is not of a group cannot lend its rights.
            mode &= !mode::SET_GID;
        }
        Guarded { mode, uid, gid, is_dir }
    }

    /// The answer to ACCESS (RFC 1813, section 3.3.4).
    pub(crate) fn access(&self, wanted: u32, file: Guarded) -> u32 {
        let mut granted = 0;
        if self.may(Use::Read, file) {
            granted |= access::READ;
        }
        if self.may(Use::Write, file) {
            granted |= access::MODIFY | access::EXTEND;
            if file.is_dir {
                granted |= access::DELETE;
            }
        }
        if self.may(Use::Execute, file) {
            granted |= if file.is_dir { access::LOOKUP } else { access::EXECUTE };
        }
        granted & wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mode: u32) -> Guarded {
        Guarded { mode, uid: 10, gid: 20, is_dir: false }
    }

    fn user(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, groups: vec![30] }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        // The owner is not helped by what others may.
        assert!(!user(10, 20).may(Use::Read, file(0o077)));
        assert!(!user(11, 20).may(Use::Write, file(0o707)));
        assert!(user(11, 21).may(Use::Write, file(0o002)));
        assert!(user(11, 21).may(Use::Execute, Guarded { gid: 30, ..file(0o010) }));
    }

    #[test]
    fn root_may_everything_but_execute_what_is_no_program() {
        let root = user(0, 0);
        assert!(root.may(Use::Read, file(0)) && root.may(Use::Write, file(0)));
        assert!(!root.may(Use::Execute, file(0o666)));
        assert!(root.may(Use::Execute, file(0o001)));
        assert!(root.may(Use::Execute, Guarded { is_dir: true, ..file(0) }));
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let dir = Guarded { uid: 1, gid: 1, mode: 0o1777, is_dir: true };
        for (uid, may) in [(0, true), (1, true), (10, true), (11, false)] {
            assert_eq!(user(uid, 0).may_unlink(dir, file(0o644)), may, "{uid}");
        }
        assert!(user(11, 0).may_unlink(Guarded { mode: 0o777, ..dir }, file(0o644)));
    }

    #[test]
    fn access_tells_what_the_bits_tell() {
        let dir = Guarded { is_dir: true, ..file(0o750) };
        let all = access::ALL;
        assert_eq!(user(10, 9).access(all, dir), all & !access::EXECUTE);
        assert_eq!(user(11, 20).access(all, dir), access::READ | access::LOOKUP);
        assert_eq!(user(11, 21).access(all, dir), 0);
        assert_eq!(user(11, 20).access(access::READ, file(0o070)), access::READ);
        assert_eq!(user(11, 20).access(access::EXECUTE | access::DELETE, file(0o070)), access::EXECUTE);
    }
}
