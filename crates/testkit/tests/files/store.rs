//! What the simulated server serves: a file system in memory, or a directory of this machine.

use crate::exported::Exported;
use crate::server::Server;
use crate::volatile::Volatile;
use onego_nfs::v3::{Handle, ReadArgs};
use onego_nfs_server::{Caller, Context, FileSystem};
use onego_testkit::Sim;
use onego_wire::Time;

/// Which file system a world has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Directory,
}

/// A file system that outlives its servers.
pub(crate) enum Store {
    Memory(Volatile),
    Directory(Exported),
}

impl Store {
    pub(crate) fn new(kind: Kind, seed: u64, now: Time) -> Self {
        match kind {
            Kind::Memory => Self::Memory(Volatile::new(seed, now)),
            Kind::Directory => Self::Directory(Exported::new(seed)),
        }
    }

    /// A server of it.
    pub(crate) fn serve(&mut self, sim: &Sim) -> Server {
        match self {
            Self::Memory(fs) => Server::of_memory(sim, fs),
            Self::Directory(exported) => Server::of_directory(sim, exported),
        }
    }

    /// Its server is gone. What was not durable may be lost.
    pub(crate) fn crash(&mut self) {
        match self {
            Self::Memory(fs) => fs.crash(),
            Self::Directory(exported) => exported.crash(),
        }
    }

    /// Writes that crashes have lost.
    pub(crate) fn lost_writes(&self) -> u64 {
        match self {
            Self::Memory(fs) => fs.lost(),
            // What a server has written outlives it in the kernel's page cache.
            Self::Directory(_) => 0,
        }
    }

    /// Does something with what is durable, as a user who may do everything.
    pub(crate) fn with<T>(&self, now: Time, act: impl FnOnce(&mut dyn FileSystem, Context<'_>) -> T) -> T {
        let caller = Caller { uid: 0, gid: 0, groups: Vec::new() };
        let cx = Context { caller: &caller, now };
        match self {
            Self::Memory(fs) => fs.with_durable(|fs| act(fs, cx)),
            Self::Directory(exported) => act(&mut exported.directory(), cx),
        }
    }

    /// What a file durably has.
    pub(crate) fn content(&self, now: Time, file: Handle) -> Vec<u8> {
        let args = ReadArgs { file, offset: 0, count: 1 << 20 };
        self.with(now, |fs, cx| fs.read(cx, args)).expect("the file is there").data.to_vec()
    }
}
