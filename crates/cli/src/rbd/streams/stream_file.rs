//! Where a stream goes: a file, or standard output.

use super::transfer::STANDARD;
use crate::failure::Failure;
use crate::output;
use crate::partial::{Existing, PartialFile};
use onego::List;
use rustix::io::Errno;
use std::io::{self, Write as _};
use std::path::Path;

/// A stream that is being written.
pub(super) enum StreamFile {
    File(PartialFile),
    Output,
}

impl StreamFile {
    /// A file that must be new; "-" is standard output.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        if path == Path::new(STANDARD) {
            return Ok(Self::Output);
        }
        // What has the file's own name is whole.
        if path.exists() {
            return Err(Failure::file(path)(Errno::EXIST.into()));
        }
        PartialFile::open(path, Existing::Refuse).map(Self::File)
    }

    /// Writes the next bytes.
    pub(super) fn write(&mut self, bytes: &List) -> Result<(), Failure> {
        bytes.segments().try_for_each(|segment| match self {
            Self::File(file) => file.file().write_all(segment).map_err(Failure::file(file.path())),
            Self::Output => io::stdout().write_all(segment).map_err(output::failed),
        })
    }

    /// The stream is whole.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File(file) => file.finish(),
            Self::Output => io::stdout().flush().map_err(output::failed),
        }
    }
}
