//! File system credentials of a thread (credentials(7)): the user, groups and capabilities against which the kernel
//! checks its system calls on files.
//!
//! Linux keeps credentials per thread. Only the calling thread changes here, never the process: the C library's
//! process-wide functions (`setgroups`, `seteuid`) are not used.

use rustix::fd::{AsRawFd as _, BorrowedFd};
use rustix::fs::{Access, Gid, Mode};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};
use std::cell::RefCell;
use std::io;

/// Id that system calls take as "no change". It is neither a user nor a group.
const NO_ID: u32 = u32::MAX;

/// User whose change grants and drops capabilities.
const ROOT: u32 = 0;

/// User and group that probe whether ids can be changed at all.
const PROBE_ID: u32 = 65_534;

/// Capabilities that override the permissions of files.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD);

/// Capabilities needed to change ids. They do not affect access to files.
const SWITCH: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Credentials that a thread uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// The process's ids with the thread's capabilities for files.
    Process,
    /// The process's ids without any capability.
    ProcessUser,
    /// The ids of a user.
    User {
        /// The user: owner of new files.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Its supplementary groups.
        groups: &'a [u32],
        /// Keeps the capabilities for files: as with root, permissions do not bind this user.
        overrides: bool,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ids {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

struct Thread {
    /// Ids that the process gave the thread.
    own: Ids,
    permitted: CapabilitySet,
    ids: Ids,
    effective: CapabilitySet,
    known: bool,
}

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// Makes the calling thread use these credentials for files. Without a change there is no system call.
///
/// The first call changes the thread permanently: it gets its own file mode creation mask, which is 0, and loses all
/// capabilities except those for files and for changing ids. (If `unshare` is forbidden, the mask of the whole process
/// becomes 0.) Call it only on threads dedicated to file operations on behalf of others.
///
/// After an error the thread uses unknown credentials until a later call succeeds. Fails for ids that the user
/// namespace does not map, and for every change of ids where [`can_switch`] is false.
pub fn assume(credentials: Credentials<'_>) -> io::Result<()> {
    THREAD.with_borrow_mut(|slot| {
        let thread = match slot {
            Some(thread) => thread,
            None => slot.insert(Thread::prepare()?),
        };
        thread.assume(credentials)
    })
}

/// Returns whether threads of this process can act as other users. Requires `CAP_SETUID` and `CAP_SETGID`, and a user
/// namespace with more than one user.
pub fn can_switch() -> bool {
    let probe = || {
        let (uid, gid) = (PROBE_ID, PROBE_ID);
        let user = Credentials::User { uid, gid, groups: &[gid], overrides: false };
        assume(user).and_then(|()| assume(Credentials::Process)).is_ok()
    };
    // The change ends with the probe's own thread.
    std::thread::Builder::new()
        .name("onego-probe".into())
        .spawn(probe)
        .is_ok_and(|probe| probe.join().unwrap_or(false))
}

/// Checks whether the kernel grants the calling thread this access to an open file, with its current credentials. The
/// file may be open with `O_PATH`. Fails if it does not.
pub fn may_access(fd: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    let flags = libc::AT_EACCESS | libc::AT_EMPTY_PATH;
    // SAFETY: the path is NUL-terminated; the other arguments are numbers. (The C library's function may not know the
    // flags.)
    let result =
        unsafe { libc::syscall(libc::SYS_faccessat2, fd.as_raw_fd(), c"".as_ptr(), access.bits(), flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Thread {
    fn prepare() -> io::Result<Self> {
        // SAFETY: unshares only the mask, the root and the current directory, not the descriptor table.
        let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) };
        if let Err(error) = unshared {
            tracing::warn!(%error, "cannot unshare the file mode creation mask of a thread: that of the process is now 0");
        }
        rustix::process::umask(Mode::empty());
        let groups = rustix::process::getgroups()?.into_iter().map(Gid::as_raw).collect();
        let own = Ids { uid: fs_uid(NO_ID), gid: fs_gid(NO_ID), groups };
        let permitted = rustix::thread::capabilities(None)?.permitted & (FILES | SWITCH);
        let effective = permitted;
        set_capabilities(effective, permitted)?;
        Ok(Self { ids: own.clone(), own, permitted, effective, known: true })
    }

    fn assume(&mut self, credentials: Credentials<'_>) -> io::Result<()> {
        let switch = self.permitted & SWITCH;
        match credentials {
            Credentials::Process => self.change_to_own(self.permitted),
            Credentials::ProcessUser => self.change_to_own(switch),
            Credentials::User { uid, gid, groups, overrides } => {
                let effective = if overrides { self.permitted } else { switch };
                self.change(uid, gid, groups, effective)
            }
        }
    }

    fn change_to_own(&mut self, effective: CapabilitySet) -> io::Result<()> {
        let own = std::mem::take(&mut self.own);
        let changed = self.change(own.uid, own.gid, &own.groups, effective);
        self.own = own;
        changed
    }

    #[inline]
    fn change(&mut self, uid: u32, gid: u32, groups: &[u32], effective: CapabilitySet) -> io::Result<()> {
        let Ids { uid: old_uid, gid: old_gid, groups: old_groups } = &self.ids;
        let same = self.known && (uid, gid, groups) == (*old_uid, *old_gid, &old_groups[..]);
        if same && effective == self.effective { Ok(()) } else { self.set(uid, gid, groups, effective) }
    }

    #[cold]
    fn set(&mut self, uid: u32, gid: u32, groups: &[u32], effective: CapabilitySet) -> io::Result<()> {
        if uid == NO_ID || gid == NO_ID || groups.contains(&NO_ID) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "4294967295 is not a valid user or group id",
            ));
        }
        let known = std::mem::replace(&mut self.known, false);
        let old_uid = self.ids.uid;
        if !known || self.ids.groups != groups {
            self.ids.groups.clear();
            self.ids.groups.extend_from_slice(groups);
            let groups: Vec<_> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
            rustix::thread::set_thread_groups(&groups)?;
        }
        // Neither call reports success; a second one returns the id in effect.
        if !known || self.ids.gid != gid {
            fs_gid(gid);
            self.ids.gid = fs_gid(NO_ID);
        }
        if !known || self.ids.uid != uid {
            fs_uid(uid);
            self.ids.uid = fs_uid(NO_ID);
        }
        if (self.ids.uid, self.ids.gid) != (uid, gid) {
            return Err(rustix::io::Errno::PERM.into());
        }
        // The kernel changes the effective capabilities only if the old or the new user is root.
        if !known || effective != self.effective || uid == ROOT || old_uid == ROOT {
            set_capabilities(effective, self.permitted)?;
        }
        (self.effective, self.known) = (effective, true);
        Ok(())
    }
}

fn set_capabilities(effective: CapabilitySet, permitted: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

fn fs_uid(uid: u32) -> u32 {
    // SAFETY: takes and returns a number; affects only the calling thread.
    unsafe { libc::setfsuid(uid) as u32 }
}

fn fs_gid(gid: u32) -> u32 {
    // SAFETY: takes and returns a number; affects only the calling thread.
    unsafe { libc::setfsgid(gid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    fn in_folder(name: &str, test: impl FnOnce(PathBuf) + Send + 'static) {
        let folder = std::env::temp_dir().join(format!("onego-credentials-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let inside = folder.clone();
        let outcome = std::thread::spawn(move || test(inside)).join();
        fs::remove_dir_all(folder).unwrap();
        outcome.unwrap();
    }

    #[test]
    fn ids_that_stand_for_no_change_are_refused_and_leave_the_thread_usable() {
        in_folder("none", |folder| {
            for (uid, gid, groups) in [(NO_ID, 1, [1]), (1, NO_ID, [1]), (1, 1, [NO_ID])] {
                let user = Credentials::User { uid, gid, groups: &groups, overrides: false };
                assert_eq!(assume(user).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
            assume(Credentials::Process).unwrap();
            File::create(folder.join("made")).unwrap();
        });
    }

    #[test]
    fn the_user_of_the_process_without_capabilities_is_bound_by_permissions() {
        in_folder("process", |folder| {
            let file = folder.join("file");
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
            assume(Credentials::ProcessUser).unwrap();
            assert_eq!(File::open(&file).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            // The owner may change that.
            fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
            File::open(&file).unwrap();
        });
    }
}
