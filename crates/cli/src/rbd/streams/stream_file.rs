//! Where a stream goes: a file, or standard output.

use crate::failure::Failure;
use crate::identity::SourceFacts;
use crate::output;
use crate::partial::{Existing, PartialFile};
use crate::rbd::transfer::{PIECE, STANDARD};
use onego::List;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// A stream that is being written.
pub(super) enum StreamFile {
    File { file: Box<PartialFile>, at: u64 },
    Output,
}

impl StreamFile {
    /// A file that must be new, or is what an earlier run has left; "-" is standard output. Fails if a source is one of the
    /// files that are written.
    pub(super) fn create(path: &Path, resume: bool, sources: &[&SourceFacts]) -> Result<Self, Failure> {
        if path == Path::new(STANDARD) {
            return if resume {
                Err(Failure::Usage("standard output cannot be resumed".to_owned()))
            } else {
                Ok(Self::Output)
            };
        }
        // What has the file's own name is whole.
        if path.exists() {
            return Err(Failure::file(path)(Errno::EXIST.into()));
        }
        let existing = if resume { Existing::Resume } else { Existing::Refuse };
        let mut file = PartialFile::open(path, existing, sources)?;
        if !resume {
            file.begin(None, 0)?;
        }
        Ok(Self::File { file: Box::new(file), at: 0 })
    }

    /// Writes the next bytes.
    pub(super) fn write(&mut self, bytes: &List) -> Result<(), Failure> {
        match self {
            Self::File { file, at } => {
                let mut to = file.file();
                let mut written = bytes.segments().map(|segment| to.write_all(segment));
                written.try_for_each(|done| done).map_err(Failure::file(file.path()))?;
                *at += bytes.len() as u64;
                file.written(*at)
            }
            Self::Output => {
                bytes.segments().try_for_each(|part| io::stdout().write_all(part)).map_err(output::failed)
            }
        }
    }

    /// Passes what an earlier run has left to `whole`, piece by piece, and returns what that returned last: how much of it
    /// can be kept. Bytes that a power cut may have made zeros are left out: within a record they would pass for data.
    pub(super) fn whole_records(
        &self,
        mut whole: impl FnMut(Vec<u8>) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let Self::File { file, .. } = self else { return Ok(0) };
        let (mut reader, mut kept) = (file.reopen()?.take(file.reliable()), 0);
        loop {
            let mut bytes = vec![0; PIECE as usize];
            let read = reader.read(&mut bytes).map_err(Failure::file(file.path()))?;
            bytes.truncate(read);
            if read == 0 {
                return Ok(kept);
            }
            kept = whole(bytes)?;
        }
    }

    /// Continues an earlier run after its first `kept` bytes.
    pub(super) fn keep(&mut self, kept: u64) -> Result<(), Failure> {
        let Self::File { file, at } = self else { return Ok(()) };
        file.begin(None, kept)?;
        file.file().seek(SeekFrom::Start(kept)).map_err(Failure::file(file.path()))?;
        *at = kept;
        Ok(())
    }

    /// Fails unless what an earlier run has left begins with these bytes.
    pub(super) fn check_begins_with(&self, header: &List) -> Result<(), Failure> {
        let Self::File { file, .. } = self else { return Ok(()) };
        let mut found = vec![0; header.len()];
        let is_same = file.reopen()?.read_exact(&mut found).is_ok() && found == header.to_vec();
        if is_same {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "the earlier export to {} is of something else: remove it to begin anew",
            file.path().display()
        )))
    }

    /// The stream is whole.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File { file, .. } => file.finish(&SourceFacts::default()),
            Self::Output => io::stdout().flush().map_err(output::failed),
        }
    }
}

impl PartialFile {
    /// The file from its begin on, to be read.
    fn reopen(&self) -> Result<File, Failure> {
        File::open(self.place()).map_err(Failure::file(self.place()))
    }
}
