//! Handles, by which clients name files.
//!
//! A handle has the number of a file, its birth time, and the handle that its file system gives it. By that the file is
//! opened again after a move, after its descriptor was closed, and after a restart of the server. The system would open
//! any file of the file system by such a handle, also outside of the directory that is served. So handles are signed (as
//! knfsd's are with `sign_fh`), and the server passes on none that it did not sign. Where the file system has no handles
//! that fit, or the server may not open files by them, a handle is valid for as long as the server knows the file.
//!
//! ```text
//! the root:      0, mark (8)
//! another file:  1, signature (16), number (8), birth (8) [, kind (4), handle of the file system (27 at most)]
//! ```

use super::system::{self, Identity};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use onego_engine::FileHandle;
use onego_nfs::v3::{HANDLE_MAX, Handle, Status};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use smallvec::SmallVec;
use std::fmt;

const ROOT: u8 = 0;
const FILE: u8 = 1;

/// Bytes of a signature: half of what HMAC-SHA256 gives, the least that RFC 2104 would have (section 5).
const SIGNATURE_LEN: usize = 16;

/// How often a file is opened again that the system has no memory for.
const OPEN_TRIES: usize = 10;

/// Gives handles and reads them.
pub(super) struct Handles {
    root: Identity,
    key: hmac::Key,
    /// Some file of the file system, if files can be opened by its handles.
    mount: Option<OwnedFd>,
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles").field("root", &self.root).finish_non_exhaustive()
    }
}

/// What a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) identity: Identity,
    /// By which the system opens it.
    pub(super) system: Option<FileHandle>,
}

impl Handles {
    /// The handles of the directory `root`, open at `fd`, signed with `key`.
    pub(super) fn new(root: Identity, fd: &OwnedFd, key: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let mut handles = Self { root, key, mount: None };
        handles.mount = handles.mount_of(fd);
        handles
    }

    /// A file of the file system, if the root can be opened by its handle.
    fn mount_of(&self, fd: &OwnedFd) -> Option<OwnedFd> {
        let handle =
            FileHandle::of(fd.as_fd()).ok().filter(|handle| self.file(self.root, Some(handle)).is_some())?;
        let mount = system::reopen(fd, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        let opened = open(&handle, &mount).ok()?;
        (system::stat(&opened).ok()?.identity == self.root).then_some(mount)
    }

    /// Are handles valid for as long as their files exist?
    pub(super) fn last(&self) -> bool {
        self.mount.is_some()
    }

    #[cfg(test)]
    pub(super) fn forget_mount(&mut self) {
        self.mount = None;
    }

    pub(super) fn root(&self) -> Handle {
        let mut bytes = [ROOT; 9];
        bytes[1..].copy_from_slice(&self.mark());
        Handle::new(&bytes).expect("it is short")
    }

    /// The handle of a file that is open at `fd`.
    pub(super) fn give(&self, file: Identity, fd: &OwnedFd) -> Handle {
        if file == self.root {
            return self.root();
        }
        let system = self.mount.as_ref().and_then(|_| FileHandle::of(fd.as_fd()).ok());
        let lasting = system.and_then(|system| self.file(file, Some(&system)));
        lasting.or_else(|| self.file(file, None)).expect("it is short without what the system says")
    }

    /// The handle of a file that is not the root. `None`: that of the system is too long.
    fn file(&self, file: Identity, system: Option<&FileHandle>) -> Option<Handle> {
        let mut signed = SmallVec::<[u8; HANDLE_MAX]>::new();
        signed.extend_from_slice(&file.to_bytes());
        if let Some(system) = system {
            signed.extend_from_slice(&system.kind().to_be_bytes());
            signed.extend_from_slice(system.as_bytes());
        }
        let mut bytes = SmallVec::<[u8; HANDLE_MAX]>::from_slice(&[FILE]);
        bytes.extend_from_slice(&self.sign(&signed));
        bytes.extend_from_slice(&signed);
        Handle::new(&bytes)
    }

    /// Tells the directory from others: nobody needs a key to name what everybody may mount.
    fn mark(&self) -> [u8; 8] {
        (self.root.ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.root.born).to_be_bytes()
    }

    /// The signature of a handle of this directory: in another it is worth nothing.
    fn sign(&self, signed: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut whole = SmallVec::<[u8; 2 * HANDLE_MAX]>::new();
        whole.extend_from_slice(&self.root.to_bytes());
        whole.extend_from_slice(signed);
        let tag = hmac::sign(&self.key, &whole);
        *tag.as_ref().first_chunk().expect("an HMAC-SHA256 has 32 bytes")
    }

    /// What a handle names, if it was given by this directory.
    pub(super) fn read(&self, handle: &Handle) -> Result<Named, Status> {
        let bytes = handle.as_bytes();
        match bytes.split_first() {
            Some((&ROOT, mark)) if mark.len() == 8 => {
                let is_ours = mark == self.mark();
                is_ours.then_some(Named { identity: self.root, system: None }).ok_or(Status::Stale)
            }
            Some((&FILE, rest)) => {
                let (signature, signed) = rest.split_at_checked(SIGNATURE_LEN).ok_or(Status::Badhandle)?;
                let named = named(signed).ok_or(Status::Badhandle)?;
                verify_slices_are_equal(signature, &self.sign(signed)).map_err(|_| Status::Stale)?;
                Ok(named)
            }
            _ => Err(Status::Badhandle),
        }
    }

    /// Opens a file as a place by the handle of its file system.
    pub(super) fn open(&self, handle: &FileHandle) -> Result<OwnedFd, Status> {
        let mount = self.mount.as_ref().ok_or(Status::Stale)?;
        let mut tries = 0;
        loop {
            match open(handle, mount) {
                // Linux also returns it while another program gives the inode number of a removed file to a new one. A
                // client would come back only after seconds.
                Err(Errno::NOMEM) if tries < OPEN_TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                opened => {
                    return opened.map_err(|error| match system::status(error) {
                        // Out of descriptors or memory: a later call may succeed.
                        Status::Jukebox => Status::Jukebox,
                        _ => Status::Stale,
                    });
                }
            }
        }
    }
}

fn open(handle: &FileHandle, mount: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    handle
        .open(mount.as_fd(), flags.bits() as i32)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// What the signed bytes of a handle name. `None`: they name nothing.
fn named(signed: &[u8]) -> Option<Named> {
    let (ino, rest) = signed.split_first_chunk()?;
    let (born, rest) = rest.split_first_chunk()?;
    let identity = Identity { ino: u64::from_be_bytes(*ino), born: u64::from_be_bytes(*born) };
    let system = match rest.split_first_chunk() {
        Some((kind, bytes)) => Some(FileHandle::new(i32::from_be_bytes(*kind), bytes)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    Some(Named { identity, system })
}
