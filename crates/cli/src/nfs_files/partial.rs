//! Files on servers that are written next to their names until they are whole.

use super::target::{join, split};
use crate::identity::{Identity, SourceFacts};
use crate::interrupt::{Unfinished, say};
use crate::partial::{self, Existing, record_name_of, record_text, recorded_source};
use onego::nfs::{
    CallError, Dir, Error, Escaped, File, FileType, Found, Mount, Resolved, SetAttributes, SetTime, Status,
    Time,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Permissions of a file that is not whole: its source may be secret.
const PRIVATE: u32 = 0o600;

/// Most bytes of a record.
const RECORD_MAX: usize = 1024;

/// A file on a server that is being written. It has its name once it is [finished](Self::finish).
pub(crate) struct RemotePartial {
    dir: Dir,
    name: Vec<u8>,
    /// For messages.
    shown: String,
    stage: Stage,
    existing: Existing,
    /// The file that is replaced, or written in place.
    replaced: Option<Found>,
    /// Bytes of an earlier run...
    earlier: Option<File>,
    /// ...and their source, if it was noted.
    recorded: Option<String>,
    _unfinished: Option<Unfinished>,
}

/// Location of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    InPlace,
    /// Under the file's own name, to be moved: they are taken for the beginning.
    Adopted,
    /// Next to it, if they are anywhere.
    Unbegun,
    Partial,
    Finished,
}

impl RemotePartial {
    /// Finds the place of the copy: that of the source's name in the directory that the path leads to, or else the path
    /// itself, wherever symbolic links lead. Nothing changes before [`begin`](Self::begin). Fails if the source is there.
    pub(crate) async fn open(
        mount: &Mount,
        path: &[u8],
        source: &SourceFacts,
        existing: Existing,
        into_directory: bool,
    ) -> Result<Self, Error> {
        let mut path = path.to_vec();
        let mut at = mount.resolve(&path).await?;
        if at.found.as_ref().is_some_and(Found::is_dir)
            && into_directory
            && let Some(name) = &source.name
        {
            path = join(&path, name);
            at = mount.resolve(&path).await?;
        }
        let shown = Escaped(&path).to_string();
        let invalid = |why: &str| Err(Error::Invalid(format!("{shown} on the server {why}")));
        let Resolved { place, found, by_link } = at;
        if source.is(found.map(|found| Identity::there(&found.attributes)).as_ref()) {
            return invalid("is the source itself");
        }
        let (dir, name) = match (place, &found) {
            (_, Some(found)) if found.is_dir() => return invalid("is a directory: name the file in it"),
            (_, Some(found)) if found.attributes.file_type != FileType::Regular => {
                return invalid("is no regular file: choose another name");
            }
            (_, None) if path.ends_with(b"/") => return invalid("is no directory"),
            (_, None) if by_link => {
                return invalid("is a symbolic link that leads to no file: remove it, or name the file");
            }
            (Some((dir, name)), _) => (dir, name),
            (None, _) => return invalid("names no file in a directory"),
        };
        if existing == Existing::Refuse && found.is_some() {
            let source = CallError::Failed(Status::Exist);
            return Err(Error::Call { what: format!("creating {shown}"), source });
        }
        let mut this = Self {
            dir,
            name,
            shown,
            stage: if existing == Existing::InPlace { Stage::InPlace } else { Stage::Unbegun },
            existing,
            replaced: found,
            earlier: None,
            recorded: None,
            _unfinished: None,
        };
        if existing == Existing::Resume {
            this.find_earlier(mount).await?;
        }
        Ok(this)
    }

    /// Finds what an earlier run has left: a file that is not whole, or else the file itself.
    async fn find_earlier(&mut self, mount: &Mount) -> Result<(), Error> {
        match self.dir.lookup(&self.partial()).await {
            Ok(found) if found.attributes.file_type == FileType::Regular => {
                self.recorded = self.read_record(mount, found.attributes.fileid).await;
                self.earlier = Some(File::from_handle(mount, found));
            }
            Ok(_) => {
                let partial = join(split(self.shown.as_bytes()).0, &self.partial());
                return Err(Error::Invalid(format!(
                    "{} on the server is no file: remove it",
                    Escaped(&partial)
                )));
            }
            Err(error) if error.status() != Some(Status::Noent) => return Err(error),
            Err(_) => {
                if let Some(found) = self.replaced {
                    self.stage = Stage::Adopted;
                    self.earlier = Some(File::from_handle(mount, found));
                }
            }
        }
        Ok(())
    }

    async fn read_record(&self, mount: &Mount, partial: u64) -> Option<String> {
        let found = self.dir.lookup(&record_name_of(&self.name)).await.ok()?;
        let is_file = found.attributes.file_type == FileType::Regular;
        let text = File::from_handle(mount, found).read(0, RECORD_MAX).await.ok().filter(|_| is_file)?;
        recorded_source(std::str::from_utf8(&text.to_vec()).ok()?, partial)
    }

    /// Bytes of an earlier run, and their file.
    pub(crate) fn earlier(&self) -> Option<(&File, u64)> {
        self.earlier.as_ref().map(|file| (file, file.opened().size))
    }

    /// Source of the bytes that an earlier run has left, if it noted that.
    pub(crate) fn recorded(&self) -> Option<&str> {
        self.recorded.as_deref()
    }

    /// Returns whether the file has its own name, and is taken for the beginning.
    pub(crate) fn is_adopted(&self) -> bool {
        self.stage == Stage::Adopted
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Keeps the first `keep` bytes of an earlier run, notes next to them what they are a copy of, and returns the file to
    /// write to. To be called once, after all checks.
    pub(crate) async fn begin(
        &mut self,
        source: &SourceFacts,
        record: Option<String>,
        keep: u64,
    ) -> Result<File, Error> {
        let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
        if self.stage == Stage::InPlace {
            let Some(found) = self.replaced else {
                let attributes = SetAttributes { mode: Some(source.mode_of_copy()), ..size(0) };
                return self.dir.create(&self.name, attributes, true).await;
            };
            let file = self.dir.file(found);
            file.set_attributes(size(0)).await?;
            return Ok(file);
        }
        let partial = self.partial();
        if self.stage == Stage::Adopted {
            let now = self.dir.lookup(&self.name).await?;
            if self.replaced.is_none_or(|found| found.handle != now.handle) {
                let why = "was replaced by another file meanwhile: copy again";
                return Err(Error::Invalid(format!("{} on the server {why}", self.shown)));
            }
            self.dir.rename(&self.name, &partial).await?;
        }
        self.stage = Stage::Partial;
        let left = self.left();
        self._unfinished = Some(Unfinished::new(move || Some(left)));
        // A record of another source must not stay next to bytes of this one.
        self.remove_record().await?;
        let file = match self.earlier.take() {
            Some(file) => file,
            None => {
                let attributes = SetAttributes { mode: Some(PRIVATE), ..size(0) };
                self.dir.create(&partial, attributes, false).await?
            }
        };
        file.set_attributes(size(keep)).await?;
        if let Some(record) = record {
            let attributes = SetAttributes { mode: Some(PRIVATE), ..size(0) };
            let noted = self.dir.create(&record_name_of(&self.name), attributes, false).await?;
            let text = record_text(&record, file.opened().fileid);
            noted.write_stable(0, text.into_bytes()).await?;
        }
        Ok(file)
    }

    /// All bytes are there, and durable: gives the file its size, its name, and the permissions and time of its source. A
    /// file that is replaced leaves its own permissions.
    pub(crate) async fn finish(&mut self, file: &File, source: &SourceFacts, size: u64) -> Result<(), Error> {
        file.set_attributes(SetAttributes { size: Some(size), ..SetAttributes::default() }).await?;
        if self.stage != Stage::InPlace || self.replaced.is_none() {
            let mode =
                self.replaced.map_or_else(|| source.mode_of_copy(), |found| found.attributes.mode & 0o777);
            let mtime = source.modified.and_then(nfs_time).map_or(SetTime::Leave, SetTime::To);
            let attributes = SetAttributes { mode: Some(mode), mtime, ..SetAttributes::default() };
            if let Err(error) = file.set_attributes(attributes).await {
                say(&format!("warning: {} keeps neither permissions nor time: {error}", self.shown));
            }
        }
        if self.stage != Stage::InPlace {
            let partial = self.partial();
            match self.existing {
                Existing::Refuse => self.name_new(file, &partial).await?,
                _ => self.dir.rename(&partial, &self.name).await?,
            }
        }
        self.stage = Stage::Finished;
        self.remove_record().await
    }

    /// Gives the file its name, which must be new.
    async fn name_new(&self, file: &File, partial: &[u8]) -> Result<(), Error> {
        // A link replaces nothing, also where a file of that name came meanwhile.
        match self.dir.link(file, &self.name).await {
            Ok(()) => self.dir.remove(partial).await,
            Err(error) if lacks_links(&error) => {
                // An empty file that must be new takes the name, and is replaced.
                self.dir.create(&self.name, SetAttributes::default(), true).await?;
                self.dir.rename(partial, &self.name).await
            }
            Err(error) => Err(error),
        }
    }

    async fn remove_record(&self) -> Result<(), Error> {
        match self.dir.remove(&record_name_of(&self.name)).await {
            Err(error) if error.status() != Some(Status::Noent) => Err(error),
            _ => Ok(()),
        }
    }

    fn partial(&self) -> Vec<u8> {
        partial::name_of(&self.name)
    }

    fn left(&self) -> String {
        let partial = join(split(self.shown.as_bytes()).0, Escaped(&self.partial()).to_string().as_bytes());
        let partial = String::from_utf8_lossy(&partial).into_owned();
        format!(
            "{partial} on the server has what has come so far: --resume goes on, \"onego nfs rm\" removes it"
        )
    }
}

impl Drop for RemotePartial {
    fn drop(&mut self) {
        if self.stage == Stage::Partial {
            say(&self.left());
        }
    }
}

fn nfs_time(time: SystemTime) -> Option<Time> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Time { seconds: since.as_secs().try_into().ok()?, nanoseconds: since.subsec_nanos() })
}

/// Returns whether the server, or its file system, has no hard links.
fn lacks_links(error: &Error) -> bool {
    match error {
        Error::Call { source: CallError::Failed(status), .. } => {
            matches!(status, Status::Notsupp | Status::Perm | Status::Inval)
        }
        Error::Call { source: CallError::Refused(_), .. } => true,
        _ => false,
    }
}
