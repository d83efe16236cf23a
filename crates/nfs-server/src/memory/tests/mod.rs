use super::{Limits, Memory};
use crate::caller::Caller;
use crate::file_system::{Context, FileSystem as _};
use onego_buf::Pool;
use onego_nfs::v3::{
    AccessArgs, Attributes, Change, CommitArgs, CreateArgs, CreateHow, Device, FileType, Handle, LinkArgs,
    MkdirArgs, MknodArgs, Name, Node, Place, ReadArgs, ReaddirArgs, ReaddirOk, ReaddirplusArgs,
    ReaddirplusOk, RenameArgs, SetAttributes, SetTime, SetattrArgs, Stability, Status, SymlinkArgs,
    WriteArgs, access,
};
use onego_wire::Time;

mod data;
mod listing;
mod model;
mod names;
mod refusals;

/// A file system, and its caller.
pub(super) struct World {
    pub(super) fs: Memory,
    pub(super) caller: Caller,
    pub(super) now: Time,
}

pub(super) const LIMITS: Limits = Limits { bytes: 64 << 20, files: 1000 };

pub(super) fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, groups: vec![500] }
}

fn root() -> Caller {
    Caller { uid: 0, gid: 0, groups: Vec::new() }
}

pub(super) fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(LIMITS)
    }

    pub(super) fn with(limits: Limits) -> Self {
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        Self { fs: Memory::new(limits, 7, Pool::new(1 << 20), now), caller: root(), now }
    }

    /// Does something as another user.
    pub(super) fn as_user<T>(&mut self, uid: u32, act: impl FnOnce(&mut Self) -> T) -> T {
        let caller = std::mem::replace(&mut self.caller, user(uid));
        let result = act(self);
        self.caller = caller;
        result
    }

    /// Calls a method of the file system.
    pub(super) fn call<A, R>(&mut self, method: fn(&mut Memory, Context<'_>, A) -> R, args: A) -> R {
        let cx = Context { caller: &self.caller, now: self.now };
        method(&mut self.fs, cx, args)
    }

    pub(super) fn root(&mut self) -> Handle {
        self.call(|fs, cx, ()| fs.mount(cx, b""), ()).unwrap()
    }

    /// The place of that path, whose directories are there.
    pub(super) fn place(&mut self, path: &str) -> Place {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Place { dir: self.file(dir), name: name.into() }
    }

    /// The file at that path.
    pub(super) fn file(&mut self, path: &str) -> Handle {
        let caller = std::mem::replace(&mut self.caller, root());
        let mut file = self.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            file = self.call(Memory::lookup, Place { dir: file, name: name.into() }).unwrap().file;
        }
        self.caller = caller;
        file
    }

    pub(super) fn attributes(&mut self, path: &str) -> Attributes {
        let file = self.file(path);
        self.call(Memory::getattr, file).unwrap()
    }

    pub(super) fn create(&mut self, path: &str, bits: u32) -> Result<Handle, Status> {
        let args = CreateArgs { place: self.place(path), how: CreateHow::Guarded(mode(bits)) };
        self.call(Memory::create, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    }

    pub(super) fn mkdir(&mut self, path: &str, bits: u32) -> Result<Handle, Status> {
        let args = MkdirArgs { place: self.place(path), attributes: mode(bits) };
        self.call(Memory::mkdir, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    }

    pub(super) fn symlink(&mut self, path: &str, to: &str) -> Result<Handle, Status> {
        let args = SymlinkArgs { place: self.place(path), attributes: mode(0o777), path: to.into() };
        self.call(Memory::symlink, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<(), Status> {
        let place = self.place(path);
        self.call(Memory::remove, place).map(drop).map_err(|failed| failed.status)
    }

    pub(super) fn rmdir(&mut self, path: &str) -> Result<(), Status> {
        let place = self.place(path);
        self.call(Memory::rmdir, place).map(drop).map_err(|failed| failed.status)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), Status> {
        let args = RenameArgs { from: self.place(from), to: self.place(to) };
        self.call(Memory::rename, args).map(drop).map_err(|failed| failed.status)
    }

    pub(super) fn link(&mut self, file: &str, link: &str) -> Result<(), Status> {
        let args = LinkArgs { file: self.file(file), link: self.place(link) };
        self.call(Memory::link, args).map(drop).map_err(|failed| failed.status)
    }

    pub(super) fn lookup(&mut self, path: &str) -> Result<Handle, Status> {
        let place = self.place(path);
        self.call(Memory::lookup, place).map(|found| found.file).map_err(|failed| failed.status)
    }

    pub(super) fn set(&mut self, path: &str, attributes: SetAttributes) -> Result<(), Status> {
        let args = SetattrArgs { file: self.file(path), attributes, guard: None };
        self.call(Memory::setattr, args).map(drop).map_err(|failed| failed.status)
    }

    pub(super) fn write(&mut self, path: &str, offset: u64, data: &[u8]) -> Result<(), Status> {
        let data = data.to_vec().into();
        let args = WriteArgs { file: self.file(path), offset, stable: Stability::Unstable, data };
        self.call(Memory::write, args).map(drop).map_err(|failed| failed.status)
    }

    pub(super) fn read(&mut self, path: &str, offset: u64, count: u32) -> Result<(Vec<u8>, bool), Status> {
        let args = ReadArgs { file: self.file(path), offset, count };
        let read = self.call(Memory::read, args);
        read.map(|read| (read.data.to_vec(), read.eof)).map_err(|failed| failed.status)
    }
}
