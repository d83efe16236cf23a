//! Files that are written next to their names until they are whole, so that half a file is never taken for a whole one.
//!
//! Only what this program wrote is continued, truncated or removed. An unfinished copy is one that its record names; other
//! files of such a name are refused, and so are sources that a copy would write to.

mod durable;
mod record;

use crate::failure::Failure;
use crate::identity::{Identity, SourceFacts};
use crate::interrupt::{Unfinished, say};
use durable::{Durable, Recorded, Shared};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use durable::SyncEvery;
pub(crate) use record::{Claim, Liveness, RECORD_LEN, Record};

/// Ends the name of a file that is not whole.
const SUFFIX: &[u8] = b".onego-partial";

/// Ends the name of the record next to it, which names the source.
const RECORD_SUFFIX: &[u8] = b".onego-source";

/// The longest name that file systems have.
const NAME_MAX: usize = 255;

/// The name of a file until it is whole.
pub(crate) fn name_of(name: &[u8]) -> Vec<u8> {
    with_suffix(name, SUFFIX)
}

/// The name of the record next to it.
pub(crate) fn record_name_of(name: &[u8]) -> Vec<u8> {
    with_suffix(name, RECORD_SUFFIX)
}

fn with_suffix(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    if 1 + name.len() + suffix.len() <= NAME_MAX {
        return [b".", name, suffix].concat();
    }
    // Long names that begin alike keep different names.
    let hash = format!("-{:016x}", fnv(name));
    let kept = NAME_MAX - 1 - hash.len() - suffix.len();
    [b".", &name[..kept], hash.as_bytes(), suffix].concat()
}

/// FNV-1a of 64 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What becomes of a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is written.
    Refuse,
    /// It is there until the new one is whole.
    Replace,
    /// It is taken for the beginning.
    Resume,
    /// It is written to.
    InPlace,
}

/// A file that is being written. It has its name once it is [finished](Self::finish).
pub(crate) struct PartialFile {
    file: File,
    path: PathBuf,
    stage: Stage,
    existing: Existing,
    /// Permissions of a file that is replaced.
    mode: Option<u32>,
    len: u64,
    recorded: Option<Record>,
    every: SyncEvery,
    /// An unfinished file is removed.
    is_discarded: bool,
    /// Once the copy is begun.
    durable: Option<Durable>,
    _unfinished: Option<Unfinished>,
}

/// Location of the bytes.
enum Stage {
    /// Under the file's own name, for good: it is written in place, or no regular file.
    InPlace { is_special: bool },
    /// Under the file's own name, to be moved: they are taken for the beginning.
    Adopted { partial: PathBuf },
    /// Next to it.
    Partial { partial: PathBuf },
    /// The file has its name.
    Finished,
}

impl PartialFile {
    /// Opens a file for what is to be at `path`. Nothing that exists changes before [`begin`](Self::begin). Fails if a
    /// source is one of the files that the copy would write to, rename or remove.
    pub(crate) fn open(path: &Path, existing: Existing, sources: &[&SourceFacts]) -> Result<Self, Failure> {
        let fail = || Failure::file(path);
        if names_a_directory(path.as_os_str().as_bytes()) && !path.is_dir() {
            return Err(match path.as_os_str().is_empty() {
                true => Failure::Usage("an empty path names no file".to_owned()),
                false => fail()(Errno::NOTDIR.into()),
            });
        }
        // A link stays one: what it leads to is replaced.
        let path = match path.canonicalize() {
            Ok(_) if existing == Existing::Refuse => return Err(fail()(Errno::EXIST.into())),
            Ok(path) => path,
            Err(_) if path.is_symlink() => {
                let why = "is a symbolic link that leads to no file: remove it, or name the file";
                return Err(Failure::Usage(format!("{} {why}", path.display())));
            }
            Err(_) => path.to_owned(),
        };
        let there = fs::metadata(&path).ok();
        refuse_sources(
            &path,
            there.as_ref(),
            sources,
            "the source itself: a copy onto itself could lose it",
        )?;
        let is_special = there.as_ref().is_some_and(|about| !about.is_file());
        if is_special || existing == Existing::InPlace {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).map_err(fail())?;
            let (stage, mode) =
                (Stage::InPlace { is_special }, there.map(|about| about.permissions().mode()));
            return Ok(Self::opened(file, path, stage, existing, mode));
        }
        let (partial, record) = (beside(&path, name_of), beside(&path, record_name_of));
        for (name, what) in [(&partial, "unfinished copy"), (&record, "its record")] {
            let why = format!("the source, and a copy to {} keeps its {what} there", path.display());
            let about = fs::symlink_metadata(name).ok();
            refuse_sources(name, about.as_ref(), sources, &format!("{why}: rename it first"))?;
            if about.is_some_and(|about| !about.is_file()) {
                return Err(foreign(name, "is no regular file"));
            }
        }
        let recorded = read_record(&record)?;
        let adopts = existing == Existing::Resume && there.is_some() && !partial.exists();
        let place = if adopts { &path } else { &partial };
        // The name that people know is in the error where there is no such directory.
        let file = open_locked(place, &path, !adopts).map_err(|failure| match failure {
            Failure::File { source, .. } if source.kind() == io::ErrorKind::NotFound => fail()(source),
            other => other,
        })?;
        let about = file.metadata().map_err(Failure::file(place))?;
        if !adopts && about.len() > 0 && !recorded.as_ref().is_some_and(|record| record.is_of(about.ino())) {
            return Err(foreign(&partial, "is no unfinished copy of this program"));
        }
        let mode = there.map(|about| about.permissions().mode());
        let stage = if adopts { Stage::Adopted { partial } } else { Stage::Partial { partial } };
        let recorded = recorded.filter(|record| !adopts && record.is_of(about.ino()));
        let mut this = Self::opened(file, path, stage, existing, mode);
        (this.len, this.recorded) = (about.len(), recorded);
        this.watch();
        Ok(this)
    }

    fn opened(file: File, path: PathBuf, stage: Stage, existing: Existing, mode: Option<u32>) -> Self {
        let every = SyncEvery::default();
        let (len, recorded, is_discarded, durable, _unfinished) = (0, None, false, None, None);
        Self { file, path, stage, existing, mode, len, recorded, every, is_discarded, durable, _unfinished }
    }

    /// Sets the amount of progress after which the copy is synced.
    pub(crate) fn sync_every(&mut self, every: SyncEvery) {
        self.every = every;
    }

    /// Registers the file: an early end reports it, or removes it if it is empty.
    fn watch(&mut self) {
        if let Stage::Partial { partial } = &self.stage {
            let (left, record) = (partial.clone(), beside(&self.path, record_name_of));
            let shared = self.durable.as_ref().map(Durable::shared);
            self._unfinished = Some(Unfinished::of_owner(move || leave(&left, &record, shared)));
        }
    }

    /// Removes the file unless it is [finished](Self::finish): it cannot be continued.
    pub(crate) fn discard_unless_finished(&mut self) {
        if let Stage::Partial { partial } = &self.stage {
            let (partial, record) = (partial.clone(), beside(&self.path, record_name_of));
            self.is_discarded = true;
            self._unfinished = Some(Unfinished::of_owner(move || {
                discard(&partial, &record);
                None
            }));
        }
    }

    /// Keeps the first `keep` bytes of an earlier run, and notes next to them what they are a copy of. To be called once,
    /// before anything is written, and after all checks.
    pub(crate) fn begin(&mut self, source: Option<&str>, keep: u64) -> Result<(), Failure> {
        let fail = || Failure::file(&self.path);
        match &self.stage {
            Stage::InPlace { is_special: true } | Stage::Finished => return Ok(()),
            Stage::InPlace { is_special: false } => return self.file.set_len(keep).map_err(fail()),
            Stage::Adopted { .. } => {
                let (about, named) = (self.file.metadata(), fs::symlink_metadata(&self.path));
                let (about, named) = (about.map_err(fail())?, named.map_err(fail())?);
                if (about.dev(), about.ino()) != (named.dev(), named.ino()) {
                    let why = "was replaced by another file meanwhile: copy again";
                    return Err(Failure::Usage(format!("{} {why}", self.path.display())));
                }
            }
            // The record of another source stays true of these bytes until the new one replaces it.
            Stage::Partial { .. } => self.file.set_len(keep).map_err(fail())?,
        }
        if keep > self.recorded.as_ref().map_or(0, |record| record.synced) {
            self.file.sync_data().map_err(fail())?;
        }
        let file = Some(self.file.metadata().map_err(fail())?.ino());
        let noted = Record { source: source.map(str::to_owned), file, synced: keep, owner: None };
        let record_path = beside(&self.path, record_name_of);
        let record = write_record(&record_path, &noted).map_err(Failure::file(&record_path))?;
        if let Stage::Adopted { partial } = &self.stage {
            rename_new(&self.path, partial).map_err(Failure::file(partial))?;
            self.file.set_len(keep).map_err(fail())?;
            self.stage = Stage::Partial { partial: partial.clone() };
        }
        let file = self.file.try_clone().map_err(fail())?;
        let directory = Some(parent(&self.path).to_owned());
        self.durable = Some(Durable::new(Recorded { file, record, noted, slot: 0, directory }, self.every));
        self.watch();
        Ok(())
    }

    /// All bytes before `done` are written. They are made durable now and then, in the background.
    pub(crate) fn written(&mut self, done: u64) -> Result<(), Failure> {
        let Some(durable) = &mut self.durable else { return Ok(()) };
        durable.written(done).map_err(Failure::file(&self.path))
    }

    /// The copy ends early: makes what is written durable, so that it can be continued after all of it.
    pub(crate) fn abandon(self) {
        if let Some(durable) = &self.durable {
            durable.shared().sync_last();
        }
    }

    /// Bytes that an earlier run has left.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of an earlier run that were written in full, and survived a power cut: file systems may commit a size before
    /// the bytes.
    pub(crate) fn reliable(&self) -> u64 {
        match &self.stage {
            Stage::Adopted { .. } => self.len,
            _ => self.recorded.as_ref().map_or(0, |record| record.synced.min(self.len)),
        }
    }

    /// Source of the bytes that an earlier run has left, if it noted that.
    pub(crate) fn recorded(&self) -> Option<&str> {
        self.recorded.as_ref()?.source.as_deref()
    }

    /// Returns whether the file has its own name, and is taken for the beginning.
    pub(crate) fn is_adopted(&self) -> bool {
        matches!(self.stage, Stage::Adopted { .. })
    }

    /// Returns whether it is a pipe or a device, which has no holes.
    pub(crate) fn is_special(&self) -> bool {
        matches!(self.stage, Stage::InPlace { is_special: true })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file is now.
    pub(crate) fn place(&self) -> &Path {
        match &self.stage {
            Stage::Partial { partial } => partial,
            _ => &self.path,
        }
    }

    /// The file is whole: makes it durable, and gives it its name, and the permissions and time of its source. A file that
    /// is replaced leaves its own permissions.
    pub(crate) fn finish(mut self, source: &SourceFacts) -> Result<(), Failure> {
        let fail = || Failure::file(&self.path);
        if let Some(durable) = &mut self.durable {
            durable.wait().map_err(fail())?;
        }
        let is_new = self.mode.is_none();
        let mode = self.mode.unwrap_or_else(|| source.mode_of_copy()) & 0o7777;
        if is_new || matches!(self.stage, Stage::Partial { .. }) {
            self.file.set_permissions(Permissions::from_mode(mode)).map_err(fail())?;
            if let Some(modified) = source.modified {
                self.file.set_modified(modified).map_err(fail())?;
            }
        }
        match &self.stage {
            Stage::InPlace { is_special: false } => {
                self.file.sync_all().map_err(fail())?;
                return if is_new { sync_directory(&self.path) } else { Ok(()) };
            }
            Stage::Partial { partial } => {
                self.file.sync_all().map_err(fail())?;
                match self.existing {
                    Existing::Refuse => rename_new(partial, &self.path),
                    _ => fs::rename(partial, &self.path),
                }
                .map_err(fail())?;
            }
            // Pipes and devices have nothing to sync, or their users do.
            Stage::InPlace { is_special: true } | Stage::Adopted { .. } | Stage::Finished => return Ok(()),
        }
        self.stage = Stage::Finished;
        let record = beside(&self.path, record_name_of);
        remove_if_there(&record).map_err(Failure::file(&record))?;
        sync_directory(&self.path)
    }
}

/// Returns whether a path can only name a directory: it is empty, or ends with a slash, `.` or `..`.
pub(crate) fn names_a_directory(path: &[u8]) -> bool {
    matches!(path.rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."))
}

/// Fails if a file that exists is one of the sources.
fn refuse_sources(
    path: &Path,
    about: Option<&Metadata>,
    sources: &[&SourceFacts],
    why: &str,
) -> Result<(), Failure> {
    let identity = about.and_then(Identity::here);
    match sources.iter().any(|source| source.is(identity.as_ref())) {
        true => Err(Failure::Usage(format!("{} is {why}", path.display()))),
        false => Ok(()),
    }
}

/// Refuses a file that has the name of an unfinished copy or its record, and is neither.
fn foreign(path: &Path, why: &str) -> Failure {
    Failure::Usage(format!("{} {why}, and has the name of one: rename or remove it", path.display()))
}

/// Opens a file for the bytes of `path`, and locks it.
fn open_locked(place: &Path, path: &Path, creates: bool) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(creates).truncate(false).mode(0o600);
    if creates {
        options.custom_flags(NOFOLLOW);
    }
    loop {
        let file = options.open(place).map_err(Failure::file(place))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = "is being written by another process";
                return Err(Failure::Usage(format!("{} {why}", path.display())));
            }
            // A file system without locks.
            Err(TryLockError::Error(_)) => {}
        }
        // A copy that ended between both calls has renamed the file.
        let (opened, named) = (file.metadata(), fs::metadata(place));
        let opened = opened.map_err(Failure::file(place))?;
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino())) {
            return Ok(file);
        }
    }
}

/// The file next to another one, whose name `name` makes of its name.
fn beside(path: &Path, name: fn(&[u8]) -> Vec<u8>) -> PathBuf {
    path.with_file_name(OsString::from_vec(name(path.file_name().unwrap_or(OsStr::new("")).as_bytes())))
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

fn sync_directory(path: &Path) -> Result<(), Failure> {
    let directory = parent(path);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(Failure::file(directory))
}

/// Reads the record at a path, if one is there. An empty file is a record that was not written any more. Fails if it is
/// anything else.
fn read_record(path: &Path) -> Result<Option<Record>, Failure> {
    let file = match OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Failure::file(path))?,
    };
    let mut bytes = Vec::new();
    file.take(RECORD_LEN as u64 + 1).read_to_end(&mut bytes).map_err(Failure::file(path))?;
    match Record::parse(&bytes) {
        None if bytes.is_empty() => Ok(None),
        Some(record) if bytes.len() <= RECORD_LEN => Ok(Some(record)),
        _ => Err(foreign(path, "is no record of an unfinished copy")),
    }
}

/// Writes a record, in place of an earlier one.
fn write_record(path: &Path, record: &Record) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NOFOLLOW);
    let file = options.open(path)?;
    let replaces = file.metadata()?.len() > 0;
    file.write_all_at(record.text().as_bytes(), 0)?;
    // An earlier one may have said more than there will be: that must not come back once the bytes are others.
    if replaces || record.synced > 0 {
        file.sync_data()?;
    }
    Ok(file)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let Stage::Partial { partial } = &self.stage else { return };
        let record = beside(&self.path, record_name_of);
        if self.is_discarded {
            return discard(partial, &record);
        }
        // A signal's thread has said it.
        if let Some(left) = leave(partial, &record, None) {
            say(&left);
        }
    }
}

/// Removes a file and its record.
fn discard(partial: &Path, record: &Path) {
    // What cannot be removed is no worse than before.
    let _ = fs::remove_file(record);
    let _ = fs::remove_file(partial);
}

/// Removes an empty file; syncs and reports any other.
fn leave(partial: &Path, record: &Path, shared: Option<Arc<Shared>>) -> Option<String> {
    match fs::metadata(partial) {
        Ok(about) if about.len() > 0 => {
            if let Some(shared) = shared {
                shared.sync_last();
            }
            Some(format!("{} has what has come so far: --resume goes on, or remove it", partial.display()))
        }
        Ok(_) => {
            discard(partial, record);
            None
        }
        Err(_) => None,
    }
}

/// Gives a file a name that no other has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not know how: a link is as good, and where there are none, an empty file that must be new.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => {
                OpenOptions::new().write(true).create_new(true).open(to)?;
                fs::rename(from, to)
            }
        },
        other => Ok(other?),
    }
}

/// Does not open what a symbolic link leads to.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

#[cfg(test)]
mod tests;
