//! A directory of this machine whose server may crash and start again with the same key of handles.

use onego_buf::Pool;
use onego_nfs_server::Directory;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file system without a disk, so that to sync costs nothing.
const SHARED_MEMORY: &str = "/dev/shm";

/// A directory, and the server's part of it.
pub(crate) struct Exported {
    folder: TempDir,
    seed: u64,
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

impl Exported {
    pub(crate) fn new(seed: u64) -> Self {
        let folder = temporary();
        let key = [seed as u8; 32];
        let directory = open(folder.path(), &key, 0);
        Self { folder, seed, key, starts: 0, directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// A seed for this start of the server.
    pub(crate) fn start_seed(&self) -> u64 {
        self.seed << 32 ^ self.starts
    }

    pub(crate) fn directory(&self) -> Directory {
        self.directory.clone()
    }

    /// Who serves it has ended. The next server knows its key, and nothing else of it.
    pub(crate) fn crash(&mut self) {
        self.starts += 1;
        self.directory = open(&self.path(), &self.key, self.starts);
    }
}
