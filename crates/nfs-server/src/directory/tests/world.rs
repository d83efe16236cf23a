//! A directory that is served to one caller after the other, with public functions only: the target `privileged` has it, too.

use super::{Caller, Context, Directory, FileSystem as _};
use onego_buf::Pool;
use onego_engine::credentials::{self, Credentials};
use onego_nfs::v3::{
    self, Attributes, CreateArgs, CreateHow, Handle, LinkArgs, MkdirArgs, Place, ReadArgs, RenameArgs,
    SetAttributes, SetattrArgs, Stability, Status, WriteArgs, access,
};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

/// A directory that is served, and what was put beside it.
pub(crate) struct DirectoryWorld {
    pub(crate) outer: tempfile::TempDir,
    pub(crate) fs: Directory,
    pub(crate) caller: Caller,
}

pub(crate) type CallResult<T> = Result<T, Status>;

/// The user of the test's process.
pub(crate) fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, groups: Vec::new() }
}

pub(crate) fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

impl DirectoryWorld {
    pub(crate) fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir(outer.path().join("export")).unwrap();
        std::fs::write(outer.path().join("secret"), b"outside").unwrap();
        let fs = Self::open(&outer);
        Self { outer, fs, caller: me() }
    }

    pub(crate) fn open(outer: &tempfile::TempDir) -> Directory {
        Directory::open(&outer.path().join("export"), &[5; 32], [7; 8], Pool::new(1 << 20)).unwrap()
    }

    /// The server starts anew.
    pub(crate) fn restart(&mut self) {
        self.fs = Self::open(&self.outer);
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.outer.path().join("export").join(name)
    }

    pub(crate) fn call<A, R>(&mut self, method: fn(&mut Directory, Context<'_>, A) -> R, args: A) -> R {
        let cx = Context { caller: &self.caller, now: onego_wire::Time::default() };
        let result = method(&mut self.fs, cx, args);
        // What the test does itself it does as it was started.
        credentials::assume(Credentials::Process).unwrap();
        result
    }

    pub(crate) fn root(&mut self) -> Handle {
        self.call(|fs, cx, ()| fs.mount(cx, b""), ()).unwrap()
    }

    pub(crate) fn place(&mut self, dir: Handle, name: &str) -> Place {
        Place { dir, name: name.into() }
    }

    pub(crate) fn lookup(&mut self, dir: Handle, name: &str) -> CallResult<Handle> {
        let place = self.place(dir, name);
        self.call(Directory::lookup, place).map(|found| found.file).map_err(|failed| failed.status)
    }

    pub(crate) fn create(&mut self, dir: Handle, name: &str) -> CallResult<Handle> {
        let args = CreateArgs { place: self.place(dir, name), how: CreateHow::Guarded(mode(0o640)) };
        self.call(Directory::create, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    }

    pub(crate) fn mkdir(&mut self, dir: Handle, name: &str) -> Handle {
        let args = MkdirArgs { place: self.place(dir, name), attributes: mode(0o755) };
        self.call(Directory::mkdir, args).unwrap().file.unwrap()
    }

    pub(crate) fn rename(&mut self, from: (Handle, &str), to: (Handle, &str)) -> CallResult<()> {
        let args = RenameArgs { from: self.place(from.0, from.1), to: self.place(to.0, to.1) };
        self.call(Directory::rename, args).map(drop).map_err(|failed| failed.status)
    }

    pub(crate) fn write(&mut self, file: Handle, offset: u64, data: &[u8]) -> CallResult<u32> {
        let args = WriteArgs { file, offset, stable: Stability::FileSync, data: data.to_vec().into() };
        self.call(Directory::write, args).map(|written| written.count).map_err(|failed| failed.status)
    }

    pub(crate) fn read(&mut self, file: Handle, offset: u64, count: u32) -> CallResult<(Vec<u8>, bool)> {
        let read = self.call(Directory::read, ReadArgs { file, offset, count });
        read.map(|read| (read.data.to_vec(), read.eof)).map_err(|failed| failed.status)
    }

    /// Asks again, as a client does, for as long as the server says to.
    pub(crate) fn getattr(&mut self, file: Handle) -> CallResult<Attributes> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.call(Directory::getattr, file).map_err(|failed| failed.status) {
                Err(Status::Jukebox) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                result => return result,
            }
        }
    }
}

/// Not the user who runs the test.
pub(crate) const USER: u32 = 4321;
pub(crate) const OTHER: u32 = 4322;
/// A group of `USER`.
pub(crate) const GROUP: u32 = 4400;

pub(crate) fn user(uid: u32) -> Caller {
    let groups = if uid == USER { vec![GROUP] } else { Vec::new() };
    Caller { uid, gid: uid, groups }
}

impl DirectoryWorld {
    /// A directory in which everybody may make files.
    pub(crate) fn for_all() -> Self {
        let world = Self::new();
        std::fs::set_permissions(world.path(""), std::fs::Permissions::from_mode(0o777)).unwrap();
        world
    }

    pub(crate) fn act(&mut self, uid: u32) -> &mut Self {
        self.caller = user(uid);
        self
    }

    pub(crate) fn set(&mut self, file: Handle, attributes: SetAttributes) -> CallResult<()> {
        let args = SetattrArgs { file, attributes, guard: None };
        self.call(Directory::setattr, args).map(drop).map_err(|failed| failed.status)
    }

    pub(crate) fn link(&mut self, file: Handle, dir: Handle, name: &str) -> CallResult<()> {
        let args = LinkArgs { file, link: self.place(dir, name) };
        self.call(Directory::link, args).map(drop).map_err(|failed| failed.status)
    }

    pub(crate) fn granted(&mut self, file: Handle) -> u32 {
        let args = v3::AccessArgs { file, wanted: access::ALL };
        self.call(Directory::access, args).unwrap().granted
    }

    /// Owner, group and mode of a file.
    pub(crate) fn owner(&self, name: &str) -> (u32, u32, u32) {
        let stat = std::fs::symlink_metadata(self.path(name)).unwrap();
        (stat.uid(), stat.gid(), stat.mode() & 0o7777)
    }

    pub(crate) fn chmod(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

pub(crate) fn owner(uid: Option<u32>, gid: Option<u32>) -> SetAttributes {
    SetAttributes { uid, gid, ..SetAttributes::default() }
}
