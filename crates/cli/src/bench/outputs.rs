//! The files that figures go to.

use crate::failure::Failure;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where figures go, beside the tables.
#[derive(clap::Args)]
pub(super) struct Output {
    /// Write every measurement to a file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw IOPS, bandwidth and CPU by block size
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub(super) no_progress: bool,
}

impl Output {
    pub(super) fn open(&self) -> Result<Outputs, Failure> {
        Outputs::open(self.json.as_deref(), self.svg.as_deref())
    }
}

/// The files that figures go to. They are opened before anything is measured, so that nothing is measured in vain.
pub(crate) struct Outputs {
    json: Option<OutputFile>,
    svg: Option<OutputFile>,
}

impl Outputs {
    pub(crate) fn open(json: Option<&Path>, svg: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self {
            json: json.map(OutputFile::open).transpose()?,
            svg: svg.map(OutputFile::open).transpose()?,
        })
    }

    /// Writes one JSON object a row and line, and the picture.
    pub(crate) fn write<R: serde::Serialize>(
        self,
        rows: &[R],
        picture: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if let Some(file) = self.json {
            let lines: Result<Vec<_>, _> = rows.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| Failure::file(&file.path)(error.into()))?;
            file.write(&(lines.join("\n") + "\n"))?;
        }
        self.svg.map_or(Ok(()), |file| file.write(&picture()))
    }
}

/// A file that is written later.
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
}

impl OutputFile {
    /// Opens a file. What is in it stays until it is written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(Failure::file(path))? })
    }

    pub(crate) fn write(mut self, content: &str) -> Result<(), Failure> {
        let Self { path, file } = &mut self;
        // Only a regular file has anything to be cut off.
        let is_regular = file.metadata().is_ok_and(|about| about.is_file());
        let emptied = if is_regular { file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| file.write_all(content.as_bytes())).map_err(Failure::file(path))
    }
}
