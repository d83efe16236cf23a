//! Identity of sources and destinations of copies, by whatever names they are reached.

use onego::block::NbdUrl;
use onego::nfs::Attributes;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time after which two changes of a file have different times: ticks of kernels are shorter, and clocks of servers that are
/// kept right differ by less.
pub(crate) const SETTLED: Duration = Duration::from_secs(2);

/// A device, by whatever name it is reached.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    File(FileIdentity),
    /// Its number.
    BlockDevice(u64),
    /// An image of the cluster.
    Image {
        pool: i64,
        namespace: String,
        id: String,
    },
    Nbd(NbdUrl),
}

/// A file as it is now. This machine and servers tell the same of it, by whatever name or server it is reached. Two files
/// differ in it: the numbers of files repeat between file systems, but not together with the nanoseconds of the last change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileIdentity {
    /// Device of a file of this machine.
    device: Option<u64>,
    number: u64,
    size: u64,
    modified: (u32, u32),
    changed: (u32, u32),
}

impl FileIdentity {
    pub(crate) fn there(found: &Attributes) -> Self {
        Self {
            device: None,
            number: found.fileid,
            size: found.size,
            modified: (found.mtime.seconds, found.mtime.nanoseconds),
            changed: (found.ctime.seconds, found.ctime.nanoseconds),
        }
    }

    pub(crate) fn here(about: &Metadata) -> Self {
        // NFS has 32 bits of seconds.
        Self {
            device: Some(about.dev()),
            number: about.ino(),
            size: about.len(),
            modified: (about.mtime() as u32, about.mtime_nsec() as u32),
            changed: (about.ctime() as u32, about.ctime_nsec() as u32),
        }
    }
}

impl FileIdentity {
    /// Returns whether both are one file, also while it changes if both are of this machine.
    fn is_same(&self, other: &Self) -> bool {
        match (self.device, other.device) {
            (Some(one), Some(two)) => (one, self.number) == (two, other.number),
            _ => {
                let known = |of: &Self| (of.number, of.size, of.modified, of.changed);
                known(self) == known(other)
            }
        }
    }

    fn is_settled(&self, now: SystemTime, settled: Duration) -> bool {
        let changed = UNIX_EPOCH + Duration::new(self.changed.0.into(), self.changed.1.min(999_999_999));
        now.duration_since(changed).is_ok_and(|age| age >= settled)
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device: _, number, size, modified, changed } = self;
        write!(f, "file:{number}:{size}:{}.{:09}:{}.{:09}", modified.0, modified.1, changed.0, changed.1)
    }
}

impl Identity {
    pub(crate) fn there(found: &Attributes) -> Self {
        Self::File(FileIdentity::there(found))
    }

    /// `None`: a pipe or another file without bytes of its own.
    pub(crate) fn here(about: &Metadata) -> Option<Self> {
        if about.is_file() {
            return Some(Self::File(FileIdentity::here(about)));
        }
        about.file_type().is_block_device().then(|| Self::BlockDevice(about.rdev()))
    }

    /// Returns whether a copy from one to the other would be a copy onto itself.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(two)) => one.is_same(two),
            (Self::BlockDevice(one), Self::BlockDevice(two)) => one == two,
            (
                Self::Image { pool, namespace, id },
                Self::Image { pool: other_pool, namespace: other_namespace, id: other_id },
            ) => (pool, namespace, id) == (other_pool, other_namespace, other_id),
            (Self::Nbd(one), Self::Nbd(two)) => one.is_same_export(two),
            _ => false,
        }
    }
}

/// Attributes of a source when a copy begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFacts {
    pub(crate) identity: Option<Identity>,
    /// Last name of a file.
    pub(crate) name: Option<Vec<u8>>,
    /// Permissions of a file.
    pub(crate) mode: Option<u32>,
    pub(crate) modified: Option<SystemTime>,
    /// Whether the source is an image that an import or copy has not finished.
    pub(crate) is_incomplete: bool,
}

impl SourceFacts {
    pub(crate) fn here(about: &Metadata, name: Option<&[u8]>) -> Self {
        let (mode, modified) = match about.is_file() {
            true => (Some(about.permissions().mode() & 0o777), about.modified().ok()),
            false => (None, None),
        };
        Self {
            identity: Identity::here(about),
            name: name.map(<[u8]>::to_vec),
            mode,
            modified,
            is_incomplete: false,
        }
    }

    /// Attributes of standard input, which may be a file that was redirected.
    pub(crate) fn of_input() -> Self {
        let about = rustix::io::dup(std::io::stdin()).map(std::fs::File::from).map(|file| file.metadata());
        let identity = about.ok().and_then(Result::ok).and_then(|about| Identity::here(&about));
        Self { identity, ..Self::default() }
    }

    pub(crate) fn there(found: &Attributes, name: &[u8]) -> Self {
        let since = Duration::new(found.mtime.seconds.into(), found.mtime.nanoseconds.min(999_999_999));
        Self {
            identity: Some(Identity::there(found)),
            name: Some(name.to_vec()),
            mode: Some(found.mode & 0o777),
            modified: Some(UNIX_EPOCH + since),
            is_incomplete: false,
        }
    }

    /// Returns whether `other` is the same device.
    pub(crate) fn is(&self, other: Option<&Identity>) -> bool {
        self.identity.as_ref().is_some_and(|one| other.is_some_and(|two| one.is_same(two)))
    }

    /// Identity of a file, as unfinished copies note it to tell later whether their source changed. `None`: nothing tells.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.identity {
            Some(Identity::File(file)) => Some(file.to_string()),
            _ => None,
        }
    }

    /// The same, unless the file changed less than `settled` ago: a change that follows soon may leave its times as they are.
    pub(crate) fn record(&self, settled: Duration) -> Option<String> {
        match &self.identity {
            Some(Identity::File(file)) if file.is_settled(SystemTime::now(), settled) => self.text(),
            _ => None,
        }
    }

    /// Permissions of a new copy.
    pub(crate) fn mode_of_copy(&self) -> u32 {
        self.mode.unwrap_or(0o666) & !umask()
    }
}

/// Permissions that new files of this process do not get.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}
