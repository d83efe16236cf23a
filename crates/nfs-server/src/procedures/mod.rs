//! The policy of NFS version 3, written once for all file systems.
//!
//! - A backend has [`Inodes`], their [`Contents`] and their [`Names`]: it finds, reads, writes, makes, links, moves and
//!   removes inodes, as system calls do. There are two backends: `memory`, and a `directory` of this machine.
//! - Every backend is a [`FileSystem`]: the procedures are carried out here, by static dispatch.
//! - The policy decides what the protocol decides: which names and values exist, what each form of CREATE answers, the
//!   guard of SETATTR, what LOOKUP, REMOVE, RMDIR, RENAME and LINK do with "." and "..", the limits of READ, WRITE and
//!   READDIR, the verifier of cookies, which attributes an answer has, and the two exceptions for data (`check_data`).
//! - The backend decides what an operating system decides: permissions, sticky and set-id bits, types that do not fit,
//!   full directories, loops, space. For a directory that is the kernel, which decides while it acts, so that nobody can
//!   come in between; `memory` has these rules itself.
//! - So rights are computed in one place each, and a backend sees only names and values that a file can have.

pub(crate) mod attributes;
mod budget;
pub(crate) mod inodes;
pub(crate) mod limits;
mod listing;
mod names;

use crate::file_system::{Context, FileSystem, Results};
use inodes::{Contents, Entry, Inodes, Names, NewKind, Removal};
use limits::{FILE_MAX, LINK_MAX, LISTING_MAX, NAME_MAX, PAGE, TRANSFER_MAX, receive_buffer};
use onego_buf::SegmentMut;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, Attributes, Change, CreateOk, Failed, FsinfoOk, FsstatOk, Handle, LinkChange, PathconfOk,
    RenameChange, Status, properties,
};

impl<F: Names + Contents> FileSystem for F {
    fn mount(&mut self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        names::mount(self, cx, path)
    }

    fn place(&mut self, len: usize) -> Option<SegmentMut> {
        receive_buffer(self.pool(), len)
    }

    fn getattr(&mut self, cx: Context<'_>, file: Handle) -> Results<v3::Getattr> {
        let file = self.find(cx, &file).map_err(|status| Failed { status, more: () })?;
        Ok(self.attributes(&file))
    }

    fn setattr(&mut self, cx: Context<'_>, args: v3::SetattrArgs) -> Results<v3::Setattr> {
        let set = |fs: &mut Self, file: &F::Inode| {
            if args.guard.is_some_and(|ctime| ctime != fs.attributes(file).ctime) {
                return Err(Status::NotSync);
            }
            attributes::set(fs, cx, file, &args.attributes)
        };
        change(self, cx, &args.file, set).map(|(change, ())| change)
    }

    fn lookup(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Lookup> {
        let (dir, file) = with(self, cx, &place.dir, |fs, dir| names::look_up(fs, cx, dir, &place.name.0))?;
        Ok(v3::LookupOk { file: self.handle(&file), attributes: Some(self.attributes(&file)), dir })
    }

    fn access(&mut self, cx: Context<'_>, args: v3::AccessArgs) -> Results<v3::Access> {
        let look = |fs: &mut Self, file: &F::Inode| Ok(attributes::granted(fs, cx, file, args.wanted));
        let (attributes, granted) = with(self, cx, &args.file, look)?;
        Ok(v3::AccessOk { attributes, granted })
    }

    fn readlink(&mut self, cx: Context<'_>, link: Handle) -> Results<v3::Readlink> {
        let (attributes, path) = with(self, cx, &link, |fs, link| names::read_link(fs, link))?;
        Ok(v3::ReadlinkOk { attributes, path })
    }

    fn read(&mut self, cx: Context<'_>, args: v3::ReadArgs) -> Results<v3::Read> {
        let read = |fs: &mut Self, file: &F::Inode| attributes::read(fs, cx, file, &args);
        let (attributes, (data, eof)) = with(self, cx, &args.file, read)?;
        Ok(v3::ReadOk { attributes, eof, data })
    }

    fn write(&mut self, cx: Context<'_>, args: v3::WriteArgs) -> Results<v3::Write> {
        let (file, committed) = (args.file, args.stable);
        let write = |fs: &mut Self, file: &F::Inode| attributes::write(fs, cx, file, args);
        // A sync that fails meanwhile may lose these bytes.
        let verifier = self.write_verifier();
        let (file, count) = change(self, cx, &file, write)?;
        Ok(v3::WriteOk { file, count, committed, verifier })
    }

    fn create(&mut self, cx: Context<'_>, args: v3::CreateArgs) -> Results<v3::Create> {
        make(self, cx, &args.place, |fs, entry| names::create(fs, cx, entry, &args.how))
    }

    fn mkdir(&mut self, cx: Context<'_>, args: v3::MkdirArgs) -> Results<v3::Mkdir> {
        let kind = NewKind::Directory;
        make(self, cx, &args.place, |fs, entry| names::make(fs, cx, entry, kind, args.attributes))
    }

    fn symlink(&mut self, cx: Context<'_>, args: v3::SymlinkArgs) -> Results<v3::Symlink> {
        let kind = NewKind::Symlink(args.path);
        make(self, cx, &args.place, |fs, entry| names::make(fs, cx, entry, kind, args.attributes))
    }

    fn mknod(&mut self, cx: Context<'_>, args: v3::MknodArgs) -> Results<v3::Mknod> {
        make(self, cx, &args.place, |fs, entry| names::make_special(fs, cx, entry, &args.what))
    }

    fn remove(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Remove> {
        remove(self, cx, &place, Removal::File)
    }

    fn rmdir(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Rmdir> {
        remove(self, cx, &place, Removal::Directory)
    }

    fn rename(&mut self, cx: Context<'_>, args: v3::RenameArgs) -> Results<v3::Rename> {
        let failed = |status| Failed { status, more: RenameChange::default() };
        let from = self.find(cx, &args.from.dir).map_err(failed)?;
        let to = self.find(cx, &args.to.dir).map_err(failed)?;
        let (from_before, to_before) = (self.before(&from), self.before(&to));
        let renamed = names::rename(self, cx, (&from, &args.from.name.0), (&to, &args.to.name.0));
        let more = RenameChange {
            from: Change { before: from_before, after: self.after(&from) },
            to: Change { before: to_before, after: self.after(&to) },
        };
        renamed.map(|()| more).map_err(|status| Failed { status, more })
    }

    fn link(&mut self, cx: Context<'_>, args: v3::LinkArgs) -> Results<v3::Link> {
        let failed = |status| Failed { status, more: LinkChange::default() };
        let file = self.find(cx, &args.file).map_err(failed)?;
        let link = |fs: &mut Self, dir: &F::Inode| names::link(fs, cx, &file, (dir, &args.link.name.0));
        let linked = change(self, cx, &args.link.dir, link);
        let file = self.after(&file);
        match linked {
            Ok((dir, ())) => Ok(LinkChange { file, dir }),
            Err(Failed { status, more: dir }) => Err(Failed { status, more: LinkChange { file, dir } }),
        }
    }

    fn readdir(&mut self, cx: Context<'_>, args: v3::ReaddirArgs) -> Results<v3::Readdir> {
        let (attributes, (entries, eof)) =
            with(self, cx, &args.dir, |fs, dir| listing::names(fs, cx, dir, &args))?;
        Ok(v3::ReaddirOk { attributes, verifier: self.cookie_verifier(), entries, eof })
    }

    fn readdirplus(&mut self, cx: Context<'_>, args: v3::ReaddirplusArgs) -> Results<v3::Readdirplus> {
        let (attributes, (entries, eof)) =
            with(self, cx, &args.dir, |fs, dir| listing::files(fs, cx, dir, &args))?;
        Ok(v3::ReaddirplusOk { attributes, verifier: self.cookie_verifier(), entries, eof })
    }

    fn fsstat(&mut self, cx: Context<'_>, root: Handle) -> Results<v3::Fsstat> {
        let (attributes, space) = with(self, cx, &root, |fs, file| fs.space(file))?;
        Ok(FsstatOk { attributes, ..space })
    }

    fn fsinfo(&mut self, cx: Context<'_>, root: Handle) -> Results<v3::Fsinfo> {
        let (attributes, ()) = with(self, cx, &root, |_, _| Ok(()))?;
        let transfer = TRANSFER_MAX as u32;
        Ok(FsinfoOk {
            attributes,
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

    fn pathconf(&mut self, cx: Context<'_>, file: Handle) -> Results<v3::Pathconf> {
        let (attributes, ()) = with(self, cx, &file, |_, _| Ok(()))?;
        Ok(PathconfOk {
            attributes,
            link_max: LINK_MAX,
            name_max: NAME_MAX as u32,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    }

    fn commit(&mut self, cx: Context<'_>, args: v3::CommitArgs) -> Results<v3::Commit> {
        let (file, ()) = change(self, cx, &args.file, |fs, file| attributes::commit(fs, cx, file))?;
        Ok(v3::CommitOk { file, verifier: self.write_verifier() })
    }
}

/// Does something with a file, and adds its attributes to the outcome.
#[inline]
fn with<F: Inodes, T>(
    fs: &mut F,
    cx: Context<'_>,
    handle: &Handle,
    act: impl FnOnce(&mut F, &F::Inode) -> Result<T, Status>,
) -> Result<(Option<Attributes>, T), Failed<Option<Attributes>>> {
    let file = fs.find(cx, handle).map_err(|status| Failed { status, more: None })?;
    let result = act(fs, &file);
    let attributes = Some(fs.attributes(&file));
    match result {
        Ok(value) => Ok((attributes, value)),
        Err(status) => Err(Failed { status, more: attributes }),
    }
}

/// Changes a file, or the names in a directory, and adds its attributes before and after to the outcome.
fn change<F: Inodes, T>(
    fs: &mut F,
    cx: Context<'_>,
    handle: &Handle,
    act: impl FnOnce(&mut F, &F::Inode) -> Result<T, Status>,
) -> Result<(Change, T), Failed<Change>> {
    let file = fs.find(cx, handle).map_err(|status| Failed { status, more: Change::default() })?;
    let before = fs.before(&file);
    let result = act(fs, &file);
    let change = Change { before, after: fs.after(&file) };
    match result {
        Ok(value) => Ok((change, value)),
        Err(status) => Err(Failed { status, more: change }),
    }
}

/// Makes a file.
fn make<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    place: &v3::Place,
    act: impl FnOnce(&mut F, Entry<'_, F::Inode>) -> Result<F::Inode, Status>,
) -> Result<CreateOk, Failed<Change>> {
    let (dir, file) = change(fs, cx, &place.dir, |fs, dir| act(fs, (dir, &place.name.0)))?;
    Ok(CreateOk { file: Some(fs.handle(&file)), attributes: fs.after(&file), dir })
}

/// Removes a name.
fn remove<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    place: &v3::Place,
    removal: Removal,
) -> Result<Change, Failed<Change>> {
    let remove = |fs: &mut F, dir: &F::Inode| names::remove(fs, cx, (dir, &place.name.0), removal);
    change(fs, cx, &place.dir, remove).map(|(change, ())| change)
}
