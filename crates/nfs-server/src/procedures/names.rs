//! Names: finding, giving, changing and removing them.

use super::attributes;
use super::inodes::{Contents, Entry, Inodes, Names, New, NewKind, Removal, Use};
use super::limits::{MODE_ALL, check_name, check_values};
use crate::file_system::Context;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    Attributes, CreateHow, Device, FileType, Handle, Node, SetAttributes, SetTime, Status, Time, Verifier,
};

/// Symbolic links on the way to a directory that is mounted: as many as Linux follows.
const LINKS_MAX: usize = 40;

/// How often CREATE tries a name that exists and is gone again, because others make and remove it meanwhile.
const TRIES: usize = 8;

/// Permission bits of a file that an exclusive CREATE makes. Its attributes follow by SETATTR.
const EXCLUSIVE_MODE: u32 = 0o600;

/// The handle of the directory at a path from the root. Symbolic links are followed as by a process whose root it is:
/// none leads out.
pub(super) fn mount<F: Names>(fs: &mut F, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
    match follow(fs, cx, path) {
        Ok(dir) if is_directory(fs, &dir) => Ok(fs.handle(&dir)),
        Ok(_) | Err(Status::Notdir) => Err(MountStatus::Notdir),
        Err(Status::Access) => Err(MountStatus::Access),
        Err(Status::Nametoolong) => Err(MountStatus::Nametoolong),
        Err(Status::Io | Status::Jukebox) => Err(MountStatus::Io),
        Err(_) => Err(MountStatus::Noent),
    }
}

fn follow<F: Names>(fs: &mut F, cx: Context<'_>, path: &[u8]) -> Result<F::Inode, Status> {
    let mut dir = fs.root(cx)?;
    let mut links = 0;
    // The names that are left, the next one last.
    let mut names = Vec::new();
    push_names(&mut names, path);
    while let Some(name) = names.pop() {
        let next = look_up(fs, cx, &dir, &name)?;
        if fs.file_type(&next) != FileType::Symlink {
            dir = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Status::Noent);
        }
        let target = fs.target(&next)?;
        if target.starts_with(b"/") {
            dir = fs.root(cx)?;
        }
        push_names(&mut names, &target);
    }
    Ok(dir)
}

/// Puts the names of a path on top of those that are left.
fn push_names(names: &mut Vec<Vec<u8>>, path: &[u8]) {
    let parts = path.rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.extend(parts.map(<[u8]>::to_vec));
}

fn is_directory<F: Inodes>(fs: &F, inode: &F::Inode) -> bool {
    fs.file_type(inode) == FileType::Directory
}

pub(super) fn check_directory<F: Inodes>(fs: &F, inode: &F::Inode) -> Result<(), Status> {
    if is_directory(fs, inode) { Ok(()) } else { Err(Status::Notdir) }
}

/// Is it a name that every directory has?
fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// LOOKUP (RFC 1813, section 3.3.3).
pub(super) fn look_up<F: Names>(
    fs: &F,
    cx: Context<'_>,
    dir: &F::Inode,
    name: &[u8],
) -> Result<F::Inode, Status> {
    check_directory(fs, dir)?;
    match name {
        b"." | b".." if !fs.permits(cx, dir, Use::Execute) => Err(Status::Access),
        b"." => Ok(dir.clone()),
        b".." => fs.parent(cx, dir),
        name => {
            check_name(name)?;
            fs.entry(cx, dir, name)
        }
    }
}

/// READLINK (RFC 1813, section 3.3.5).
pub(super) fn read_link<F: Names>(fs: &F, link: &F::Inode) -> Result<Vec<u8>, Status> {
    if fs.file_type(link) == FileType::Symlink { fs.target(link) } else { Err(Status::Inval) }
}

/// Can something new in the directory have that name? The backend checks whether the name is free, and whether the caller
/// may give it.
pub(super) fn check_new<F: Inodes>(fs: &F, dir: &F::Inode, name: &[u8]) -> Result<(), Status> {
    check_directory(fs, dir)?;
    check_name(name)?;
    if is_dots(name) { Err(Status::Exist) } else { Ok(()) }
}

/// CREATE (RFC 1813, section 3.3.8).
pub(super) fn create<F: Names + Contents>(
    fs: &mut F,
    cx: Context<'_>,
    (dir, name): Entry<'_, F::Inode>,
    how: &CreateHow,
) -> Result<F::Inode, Status> {
    check_new(fs, dir, name)?;
    let set = match how {
        CreateHow::Unchecked(set) | CreateHow::Guarded(set) => *set,
        CreateHow::Exclusive(verifier) => {
            let [atime, mtime] = times_of(verifier).map(SetTime::To);
            SetAttributes { mode: Some(EXCLUSIVE_MODE), atime, mtime, ..SetAttributes::default() }
        }
    };
    check_values(&set)?;
    for _ in 0..TRIES {
        match fs.make(cx, dir, name, new(NewKind::Regular, set)) {
            Err(Status::Exist) if !matches!(how, CreateHow::Guarded(_)) => {}
            result => return result,
        }
        match fs.entry(cx, dir, name) {
            Ok(there) => return create_again(fs, cx, (dir, there), how),
            // It was removed meanwhile.
            Err(Status::Noent) => {}
            Err(status) => return Err(status),
        }
    }
    Err(Status::Jukebox)
}

/// CREATE of a name that exists.
fn create_again<F: Names + Contents>(
    fs: &mut F,
    cx: Context<'_>,
    (dir, there): (&F::Inode, F::Inode),
    how: &CreateHow,
) -> Result<F::Inode, Status> {
    match how {
        CreateHow::Unchecked(set) if fs.file_type(&there) == FileType::Regular => {
            // The file keeps its attributes, except for the size.
            let set = SetAttributes { size: set.size, ..SetAttributes::default() };
            attributes::set(fs, cx, &there, &set)?;
            fs.sync_name(cx, dir, None)?;
            Ok(there)
        }
        CreateHow::Exclusive(verifier) if was_made_by(&fs.attributes(&there), verifier) => {
            fs.sync_name(cx, dir, Some(&there))?;
            Ok(there)
        }
        _ => Err(Status::Exist),
    }
}

/// The times of a file that an exclusive CREATE has made, until the client sets them. They keep the verifier, also over a
/// restart of the server (RFC 1813, section 3.3.8). Not every file system has times after 2038.
fn times_of(verifier: &Verifier) -> [Time; 2] {
    let word = |at: usize| verifier[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    [0, 4].map(|at| Time { seconds: word(at) & i32::MAX as u32, nanoseconds: 0 })
}

fn was_made_by(file: &Attributes, verifier: &Verifier) -> bool {
    file.file_type == FileType::Regular && file.size == 0 && [file.atime, file.mtime] == times_of(verifier)
}

/// A file with the attributes that the client asks for.
fn new(kind: NewKind, set: SetAttributes) -> New {
    let usual = match kind {
        NewKind::Directory => 0o755,
        NewKind::Symlink(_) => 0o777,
        NewKind::Regular | NewKind::Special(..) => 0o644,
    };
    New { kind, mode: set.mode.unwrap_or(usual) & MODE_ALL, set }
}

/// MKDIR and SYMLINK (RFC 1813, sections 3.3.9 and 3.3.10).
pub(super) fn make<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    (dir, name): Entry<'_, F::Inode>,
    kind: NewKind,
    set: SetAttributes,
) -> Result<F::Inode, Status> {
    if let NewKind::Symlink(text) = &kind {
        // POSIX, symlink(): a link needs a text.
        if text.is_empty() {
            return Err(Status::Noent);
        }
        if text.contains(&0) {
            return Err(Status::Inval);
        }
    }
    check_new(fs, dir, name)?;
    check_values(&set)?;
    fs.make(cx, dir, name, new(kind, set))
}

/// MKNOD (RFC 1813, section 3.3.11).
pub(super) fn make_special<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    entry: Entry<'_, F::Inode>,
    what: &Node,
) -> Result<F::Inode, Status> {
    let none = Device::default();
    let (set, file_type, device) = match what {
        Node::Character(set, device) => (set, FileType::CharacterDevice, *device),
        Node::Block(set, device) => (set, FileType::BlockDevice, *device),
        Node::Socket(set) => (set, FileType::Socket, none),
        Node::Fifo(set) => (set, FileType::Fifo, none),
        Node::Other(_) => return Err(Status::Badtype),
    };
    make(fs, cx, entry, NewKind::Special(file_type, device), *set)
}

/// REMOVE and RMDIR (RFC 1813, sections 3.3.12 and 3.3.13).
pub(super) fn remove<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    (dir, name): Entry<'_, F::Inode>,
    removal: Removal,
) -> Result<(), Status> {
    match (name, removal) {
        (b"..", Removal::Directory) => return Err(Status::Exist),
        (b"." | b"..", _) => return Err(Status::Inval),
        _ => {}
    }
    let file = look_up(fs, cx, dir, name)?;
    fs.remove_name(cx, (dir, name), &file, removal)
}

/// LINK (RFC 1813, section 3.3.15).
pub(super) fn link<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    file: &F::Inode,
    (dir, name): Entry<'_, F::Inode>,
) -> Result<(), Status> {
    if is_directory(fs, file) {
        return Err(Status::Perm);
    }
    check_new(fs, dir, name)?;
    fs.add_name(cx, file, (dir, name))
}

/// RENAME (RFC 1813, section 3.3.14).
pub(super) fn rename<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    from: Entry<'_, F::Inode>,
    to: Entry<'_, F::Inode>,
) -> Result<(), Status> {
    if is_dots(from.1) || is_dots(to.1) {
        return Err(Status::Inval);
    }
    let file = look_up(fs, cx, from.0, from.1)?;
    let target = match look_up(fs, cx, to.0, to.1) {
        Ok(target) => Some(target),
        Err(Status::Noent) => None,
        Err(status) => return Err(status),
    };
    fs.move_name(cx, from, to, &file, target.as_ref())
}
