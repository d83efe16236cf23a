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
    File(PartialFile),
    Output,
}

impl StreamFile {
    /// A file that must be new, or is what an earlier run has left; "-" is standard output.
    pub(super) fn create(path: &Path, resume: bool) -> Result<Self, Failure> {
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
        let mut file = PartialFile::open(path, existing)?;
        // The records of an earlier run are checked as they are kept.
        let keep = if resume { file.len() } else { 0 };
        file.begin(None, keep)?;
        Ok(Self::File(file))
    }

    /// Writes the next bytes.
    pub(super) fn write(&mut self, bytes: &List) -> Result<(), Failure> {
        bytes.segments().try_for_each(|segment| match self {
            Self::File(file) => file.file().write_all(segment).map_err(Failure::file(file.path())),
            Self::Output => io::stdout().write_all(segment).map_err(output::failed),
        })
    }

    /// Keeps what an earlier run has left up to where `whole` says, which is given all of it piece by piece. Says how much
    /// that is.
    pub(super) fn keep_records(
        &mut self,
        mut whole: impl FnMut(Vec<u8>) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let Self::File(file) = self else { return Ok(0) };
        let fail = || Failure::file(file.path());
        let (mut reader, mut kept) = (file.reopen()?, 0);
        loop {
            let mut bytes = vec![0; PIECE as usize];
            let read = reader.read(&mut bytes).map_err(fail())?;
            bytes.truncate(read);
            if read == 0 {
                break;
            }
            kept = whole(bytes)?;
        }
        file.file().set_len(kept).map_err(fail())?;
        file.file().seek(SeekFrom::Start(kept)).map_err(fail())?;
        Ok(kept)
    }

    /// Fails unless what an earlier run has left begins with these bytes.
    pub(super) fn check_begins_with(&self, header: &List) -> Result<(), Failure> {
        let Self::File(file) = self else { return Ok(()) };
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
            Self::File(file) => file.finish(&SourceFacts::default()),
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
