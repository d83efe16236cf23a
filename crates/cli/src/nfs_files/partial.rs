//! Files on servers that are written next to their names until they are whole.
//!
//! Version 3 of NFS has no locks of its own, so the record next to a copy is one: who creates it owns the copy, and it names
//! the process. A record whose process is gone is taken over. Where that cannot be looked up, on another machine, the copy is
//! watched for a while first.

use super::target::{join, split};
use crate::identity::{Identity, SourceFacts};
use crate::interrupt::{Unfinished, say};
use crate::partial::{
    self, Claim, Existing, Liveness, RECORD_LEN, Record, names_a_directory, record_name_of,
};
use onego::nfs::{
    CallError, Dir, Error, Escaped, File, FileType, Found, Handle, Mount, Resolved, SetAttributes, SetTime,
    Status, Time,
};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Permissions of a file that is not whole: its source may be secret.
const PRIVATE: u32 = 0o600;

/// Time for which a copy of another machine is watched before it is taken for dead: a live one writes many times.
const WATCH: Duration = Duration::from_secs(5);

/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(500);

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
    /// Bytes of an earlier run, or of a file of that name that is taken for the beginning.
    earlier: Option<File>,
    left: Left,
    claim: Claim,
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

/// Files that earlier runs left next to the name.
#[derive(Debug, Clone, Default)]
struct Left {
    partial: Option<Found>,
    record: Option<Found>,
    /// `None`: the record is empty, as one is that was just created.
    recorded: Option<Record>,
}

impl Left {
    /// Sizes and times, which change while a copy is written.
    fn state(&self) -> [Option<(Handle, u64, Time, Time)>; 2] {
        [self.partial, self.record].map(|found| {
            let Found { handle, attributes: about } = found?;
            Some((handle, about.size, about.mtime, about.ctime))
        })
    }

    fn liveness(&self) -> Liveness {
        match (&self.record, self.recorded.as_ref().map(|record| &record.owner)) {
            // Earlier versions named no owner.
            (None, _) | (_, Some(None)) => Liveness::Dead,
            (_, Some(Some(owner))) => owner.liveness(),
            (Some(_), None) => Liveness::Unknown,
        }
    }
}

impl RemotePartial {
    /// Finds the place of the copy: that of the source's name in the directory that the path leads to, or else the path
    /// itself, wherever symbolic links lead. Nothing changes before [`begin`](Self::begin). Fails if the source is one of the
    /// files that the copy would write to, rename or remove, or if another process writes the copy.
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
            (_, None) if names_a_directory(&path) => return invalid("is no directory"),
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
            left: Left::default(),
            claim: Claim::new(),
            _unfinished: None,
        };
        if existing != Existing::InPlace {
            this.left = this.look(mount, source).await?;
            this.refuse_live(mount).await?;
            this.find_earlier(mount);
        }
        Ok(this)
    }

    /// Looks up what earlier runs have left. Fails if it is not of this program, or the source.
    async fn look(&self, mount: &Mount, source: &SourceFacts) -> Result<Left, Error> {
        let (partial, record) = (self.partial(), record_name_of(&self.name));
        let mut left = Left {
            partial: self.look_up(&partial).await?,
            record: self.look_up(&record).await?,
            recorded: None,
        };
        self.refuse_source(&left, source)?;
        if let Some(found) = left.record.filter(|found| found.attributes.size > 0) {
            let bytes = match found.attributes.size <= RECORD_LEN as u64 {
                true => File::from_handle(mount, found).read(0, RECORD_LEN).await?.to_vec(),
                false => Vec::new(),
            };
            left.recorded = Record::parse(&bytes);
            if left.recorded.is_none() {
                return Err(self.foreign(&record, "is no record of an unfinished copy"));
            }
        }
        let Some(found) = left.partial else { return Ok(left) };
        // A record is empty for a moment after it was created; then the copy is empty, too.
        let is_named = left.recorded.as_ref().is_some_and(|record| record.is_of(found.attributes.fileid));
        match is_named || found.attributes.size == 0 {
            true => Ok(left),
            false => Err(self.foreign(&partial, "is no unfinished copy of this program")),
        }
    }

    /// Looks up a regular file, unless there is none.
    async fn look_up(&self, name: &[u8]) -> Result<Option<Found>, Error> {
        match self.dir.lookup(name).await {
            Ok(found) if found.attributes.file_type == FileType::Regular => Ok(Some(found)),
            Ok(_) => Err(self.foreign(name, "is no regular file")),
            Err(error) if error.status() == Some(Status::Noent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refuses a file that has the name of an unfinished copy or its record, and is neither.
    fn foreign(&self, name: &[u8], why: &str) -> Error {
        let shown = self.shown_next_to(name);
        Error::Invalid(format!(
            "{shown} on the server {why}, and has the name of one: rename it with \"onego nfs mv\", or remove it"
        ))
    }

    fn refuse_source(&self, left: &Left, source: &SourceFacts) -> Result<(), Error> {
        let names = [
            (left.partial, self.partial(), "unfinished copy"),
            (left.record, record_name_of(&self.name), "its record"),
        ];
        for (found, name, what) in names {
            if source.is(found.map(|found| Identity::there(&found.attributes)).as_ref()) {
                let (shown, of) = (self.shown_next_to(&name), &self.shown);
                return Err(Error::Invalid(format!(
                    "{shown} on the server is the source, and a copy to {of} keeps its {what} there: rename it first"
                )));
            }
        }
        Ok(())
    }

    /// Fails if the process lives that writes the copy.
    async fn refuse_live(&mut self, mount: &Mount) -> Result<(), Error> {
        let is_written = |by: &str| {
            Err(Error::Invalid(format!("{} on the server is being written by {by}: wait for it", self.shown)))
        };
        if self.left.liveness() == Liveness::Unknown {
            say(&format!("looking for {} s whether another machine writes {}", WATCH.as_secs(), self.shown));
            let until = Instant::now() + WATCH;
            while Instant::now() < until {
                thread::sleep(LOOK);
                let now = self.look(mount, &SourceFacts::default()).await?;
                if now.state() != self.left.state() {
                    return is_written("another machine");
                }
            }
        }
        match self.left.recorded.as_ref().and_then(|record| record.owner.as_ref()) {
            Some(owner) if owner.liveness() == Liveness::Alive => {
                is_written(&format!("process {}", owner.process()))
            }
            _ => Ok(()),
        }
    }

    /// Finds what can be continued: a file that is not whole, or else the file itself.
    fn find_earlier(&mut self, mount: &Mount) {
        if self.existing != Existing::Resume {
            return;
        }
        match (self.left.partial, self.replaced) {
            (Some(found), _) => self.earlier = Some(File::from_handle(mount, found)),
            (None, Some(found)) => {
                self.stage = Stage::Adopted;
                self.earlier = Some(File::from_handle(mount, found));
            }
            (None, None) => {}
        }
    }

    /// Bytes of an earlier run, and their file.
    pub(crate) fn earlier(&self) -> Option<(&File, u64)> {
        self.earlier.as_ref().map(|file| (file, file.opened().size))
    }

    /// Source of the bytes that an earlier run has left, if it noted that.
    pub(crate) fn recorded(&self) -> Option<&str> {
        let (found, record) = (self.left.partial?, self.left.recorded.as_ref()?);
        record.source.as_deref().filter(|_| record.is_of(found.attributes.fileid))
    }

    /// Returns whether the file has its own name, and is taken for the beginning.
    pub(crate) fn is_adopted(&self) -> bool {
        self.stage == Stage::Adopted
    }

    /// Path of the file that has the bytes of an earlier run, for messages.
    pub(crate) fn place(&self) -> String {
        match self.is_adopted() {
            true => self.shown.clone(),
            false => self.shown_next_to(&self.partial()),
        }
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
        if self.stage == Stage::Adopted {
            let now = self.dir.lookup(&self.name).await?;
            if self.replaced.is_none_or(|found| found.handle != now.handle) {
                let why = "was replaced by another file meanwhile: copy again";
                return Err(Error::Invalid(format!("{} on the server {why}", self.shown)));
            }
        }
        let noted = self.take_record().await?;
        let partial = self.partial();
        let file = match (self.earlier.take(), self.stage) {
            (Some(file), Stage::Adopted) => {
                self.write_record(&noted, &file, record).await?;
                self.dir.rename(&self.name, &partial).await?;
                file.set_attributes(size(keep)).await?;
                file
            }
            (Some(file), _) => {
                file.set_attributes(size(keep)).await?;
                self.write_record(&noted, &file, record).await?;
                file
            }
            (None, _) => {
                // A process that was taken for dead must not write to the new file.
                if self.left.partial.is_some() {
                    self.dir.remove(&partial).await?;
                }
                let attributes = SetAttributes { mode: Some(PRIVATE), ..size(0) };
                let file = self.dir.create(&partial, attributes, true).await?;
                self.write_record(&noted, &file, record).await?;
                file
            }
        };
        self.stage = Stage::Partial;
        let left = self.left();
        self._unfinished = Some(Unfinished::of_owner(move || Some(left)));
        Ok(file)
    }

    /// Creates the record, which no other process can then, and takes over that of a process which is gone.
    async fn take_record(&self) -> Result<File, Error> {
        let name = record_name_of(&self.name);
        if let Some(dead) = self.left.record {
            // Of two processes that take it over, one finds it under its name.
            let taken = [&name[..], format!("-{:x}", self.claim.token()).as_bytes()].concat();
            let taken = taken[taken.len().saturating_sub(255)..].to_vec();
            match self.dir.rename(&name, &taken).await {
                Err(error) if error.status() == Some(Status::Noent) => return Err(self.taken()),
                renamed => renamed?,
            }
            let found = self.dir.lookup(&taken).await?;
            if found.handle != dead.handle {
                // It is that of a process which took it over before.
                self.dir.rename(&taken, &name).await?;
                return Err(self.taken());
            }
            self.dir.remove(&taken).await?;
        }
        let attributes = SetAttributes { mode: Some(PRIVATE), size: Some(0), ..SetAttributes::default() };
        match self.dir.create(&name, attributes, true).await {
            Err(error) if error.status() == Some(Status::Exist) => Err(self.taken()),
            created => created,
        }
    }

    fn taken(&self) -> Error {
        let why = "is being written by another process, which began at the same time: wait for it";
        Error::Invalid(format!("{} on the server {why}", self.shown))
    }

    async fn write_record(&self, to: &File, file: &File, source: Option<String>) -> Result<(), Error> {
        let owner = Some(self.claim.owner().clone());
        let record = Record { source, file: Some(file.opened().fileid), synced: 0, owner };
        to.write_stable(0, record.text().into_bytes()).await
    }

    /// Fails if another process has taken the copy over, as it may after a long silence of this one.
    async fn check_record(&self, file: &File) -> Result<(), Error> {
        let record = self.look(file.mount(), &SourceFacts::default()).await?.recorded;
        match record.and_then(|record| record.owner).as_ref() == Some(self.claim.owner()) {
            true => Ok(()),
            false => {
                let why = "was taken over by another process: copy again";
                Err(Error::Invalid(format!("the unfinished copy to {} on the server {why}", self.shown)))
            }
        }
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
        let is_next_to_its_name = self.stage != Stage::InPlace;
        if is_next_to_its_name {
            let partial = self.partial();
            self.check_record(file).await?;
            match self.existing {
                Existing::Refuse => self.name_new(file, &partial).await?,
                _ => self.dir.rename(&partial, &self.name).await?,
            }
        }
        self.stage = Stage::Finished;
        if is_next_to_its_name { self.remove_record().await } else { Ok(()) }
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

    /// A name next to that of the copy, for messages.
    fn shown_next_to(&self, name: &[u8]) -> String {
        let name = Escaped(name).to_string();
        let path = join(split(self.shown.as_bytes()).0, name.as_bytes());
        String::from_utf8_lossy(&path).into_owned()
    }

    fn left(&self) -> String {
        let partial = self.shown_next_to(&self.partial());
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
