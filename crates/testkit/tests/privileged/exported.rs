//! A directory of this machine whose server may crash and start again with the same key of handles.

use crate::files::store::Store;
use onego_buf::Pool;
use onego_nfs_server::{Directory, FileSystem};
use onego_wire::Time;
use std::path::Path;
use tempfile::TempDir;

/// A file system without a disk, so that to sync costs nothing.
const SHARED_MEMORY: &str = "/dev/shm";

/// A directory, and the server's part of it.
pub(crate) struct Exported {
    folder: TempDir,
    key: [u8; 32],
    /// Starts of the server.
    starts: u64,
    directory: Directory,
}

fn temporary() -> TempDir {
    let folder = match Path::new(SHARED_MEMORY) {
        shared if shared.is_dir() => tempfile::tempdir_in(shared),
        _ => tempfile::tempdir(),
    };
    folder.expect("a temporary directory can be made")
}

fn open(path: &Path, key: &[u8; 32], starts: u64) -> Directory {
    Directory::open(path, key, starts.to_be_bytes(), Pool::new(1 << 20)).expect("the directory can be opened")
}

impl Store for Exported {
    type Fs = Directory;
    const COMMAND: &'static str = "-p onego-testkit --release --test privileged";
    /// The bytes that a server has written outlive it in the kernel's page cache.
    const LOSES_WRITES: bool = false;
    const HAS_SAME_BYTES: bool = false;

    fn new(seed: u64, _: Time) -> Self {
        let folder = temporary();
        let key = [seed as u8; 32];
        let directory = open(folder.path(), &key, 0);
        Self { folder, key, starts: 0, directory }
    }

    fn file_system(&self) -> Directory {
        self.directory.clone()
    }

    fn sweep(fs: &Directory) {
        fs.sweep();
    }

    /// The next server knows the key of the one before, and nothing else of it.
    fn crash(&mut self) {
        self.starts += 1;
        self.directory = open(self.folder.path(), &self.key, self.starts);
    }

    fn lost_writes(&self) -> u64 {
        0
    }

    fn durably<T>(&self, act: impl FnOnce(&mut dyn FileSystem) -> T) -> T {
        act(&mut self.directory.clone())
    }
}
