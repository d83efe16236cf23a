//! The directory of a cluster's `ceph.conf`: one cluster uses it at a time, and leaves no stale files in it.

use crate::failure::Failure;
use crate::interrupt::Unfinished;
use onego_cluster::{Cluster, KEYRING};
use onego_service::private_file::{self, PUBLIC};
use rustix::process::{Pid, Signal};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Name of the file with the number of the cluster's process.
const PID_FILE: &str = "cluster.pid";

/// Limit for the end of a cluster, which makes durable what it keeps.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two looks whether it has ended.
const STOP_PAUSE: Duration = Duration::from_millis(20);

/// A directory that this process's cluster uses. Dropping it removes the cluster's files, unless the cluster is kept: then they
/// are valid for its next start.
pub(super) struct ConfDir {
    path: PathBuf,
    is_kept: bool,
    /// First line of the cluster's `ceph.conf` that names it, once that is written.
    fsid: Option<String>,
    temporary: Option<tempfile::TempDir>,
    /// Removes a temporary directory if a signal comes while the cluster starts.
    _clear: Option<Unfinished>,
    /// Locked as long as the cluster lives.
    _lock: File,
}

impl ConfDir {
    /// Opens a directory, or makes a temporary one. Fails while another cluster uses it, and if it has files of a cluster that is
    /// not embedded.
    pub(super) fn open(path: Option<PathBuf>, is_kept: bool) -> Result<Self, Failure> {
        let (path, temporary, clear) = match path {
            // A detached cluster changes its working directory.
            Some(path) => (std::path::absolute(&path).map_err(Failure::file(&path))?, None, None),
            None => {
                let dir = tempfile::Builder::new().prefix("onego-").tempdir();
                let dir = dir.map_err(Failure::io("making a directory for ceph.conf"))?;
                let path = dir.path().to_owned();
                let clear = Unfinished::new({
                    let path = path.clone();
                    move || {
                        drop(fs::remove_dir_all(path));
                        None
                    }
                });
                (path, Some(dir), Some(clear))
            }
        };
        check_files(&path)?;
        private_file::make_directory(&path).map_err(Failure::file(&path))?;
        let lock = File::open(&path).map_err(Failure::file(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = "another embedded cluster uses it: name another directory by --conf-dir, or stop that one with \"onego \
                           cluster stop\"";
                return Err(Failure::file(&path)(io::Error::new(io::ErrorKind::ResourceBusy, why)));
            }
            // A file system without locks.
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "the directory cannot be locked");
            }
        }
        Ok(Self { path, is_kept, fsid: None, temporary, _clear: clear, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the cluster's `ceph.conf` and keyring, and the number of this process, and returns the path of `ceph.conf`.
    pub(super) fn write(&mut self, cluster: &Cluster) -> Result<PathBuf, Failure> {
        let conf = cluster.write_conf(&self.path)?;
        self.fsid = Some(format!("fsid = {}", cluster.fsid()));
        let pid = self.path.join(PID_FILE);
        let number = std::process::id().to_string();
        private_file::replace(&pid, PUBLIC, number.as_bytes()).map_err(Failure::file(&pid))?;
        Ok(conf)
    }
}

impl Drop for ConfDir {
    fn drop(&mut self) {
        // A temporary directory goes as a whole. Files that cannot be removed are no worse than before.
        let Some(fsid) = self.fsid.as_deref().filter(|_| self.temporary.is_none()) else { return };
        let _ = fs::remove_file(self.path.join(PID_FILE));
        let conf = self.path.join("ceph.conf");
        let is_ours = fs::read_to_string(&conf).is_ok_and(|text| text.lines().nth(1) == Some(fsid));
        if is_ours && !self.is_kept {
            let _ = fs::remove_file(conf);
            let _ = fs::remove_file(self.path.join(KEYRING));
        }
    }
}

/// Fails if the directory has the `ceph.conf` or the keyring of another cluster, which this one's would replace.
fn check_files(dir: &Path) -> Result<(), Failure> {
    let (conf, keyring) = (dir.join("ceph.conf"), dir.join(KEYRING));
    let foreign = |path: PathBuf| {
        let reason =
            "it is not of an embedded cluster, and would be replaced: name another directory by --conf-dir";
        Err(Failure::File { path, source: io::Error::new(io::ErrorKind::AlreadyExists, reason) })
    };
    match fs::read(&conf) {
        Ok(text) if !is_embedded(&text) => foreign(conf),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(&keyring) {
            Ok(_) => foreign(keyring),
            Err(_) => Ok(()),
        },
        // Making the directory tells what is wrong with it.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(source) => Err(Failure::File { path: conf, source }),
    }
}

/// Returns whether an embedded cluster wrote this `ceph.conf`. Users may have added to it.
fn is_embedded(text: &[u8]) -> bool {
    let defaults = "osd pool default pg num = 32\nosd pool default pgp num = 32\n";
    let text = String::from_utf8_lossy(text);
    text.is_empty() || text.starts_with("[global]\nfsid = ") && text.contains(defaults)
}

/// Ends the cluster that uses a directory, and waits until it has ended.
pub(super) fn stop(path: &Path) -> Result<(), Failure> {
    let none = || Failure::NotMapped(format!("{} is the directory of no running cluster", path.display()));
    let dir = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(none()),
        dir => dir.map_err(Failure::file(path))?,
    };
    let is_free = || match dir.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(Failure::file(path)(error)),
    };
    if is_free()? {
        return Err(none());
    }
    let pid_file = path.join(PID_FILE);
    let read = fs::read_to_string(&pid_file).map_err(Failure::file(&pid_file))?;
    let number: i32 = read.trim().parse().unwrap_or(0);
    // A user that can write the file can end the process, too.
    let owner = |path: &Path| fs::metadata(path).map(|about| about.uid()).ok();
    let is_same = owner(&pid_file) == owner(Path::new(&format!("/proc/{number}")));
    let Some(pid) = Pid::from_raw(number).filter(|_| is_same) else { return Err(none()) };
    rustix::process::kill_process(pid, Signal::TERM)
        .map_err(|error| Failure::Io { what: "ending the cluster", source: error.into() })?;
    let begun = Instant::now();
    while !is_free()? {
        if begun.elapsed() > STOP_TIMEOUT {
            let why = format!("process {number} has not ended within {STOP_TIMEOUT:?}");
            return Err(Failure::file(path)(io::Error::new(io::ErrorKind::TimedOut, why)));
        }
        thread::sleep(STOP_PAUSE);
    }
    Ok(())
}
