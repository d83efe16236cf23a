//! The files that figures go to.

use crate::failure::Failure;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Start of a picture.
pub(crate) const SVG: &str = "<svg";

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
        Self {
            json: json.map(|path| OutputFile::open(path, "{")).transpose()?,
            svg: svg.map(|path| OutputFile::open(path, SVG)).transpose()?,
        }
        .distinct()
    }

    /// Fails if both are one file.
    fn distinct(self) -> Result<Self, Failure> {
        let identity = |file: &OutputFile| file.file.metadata().ok().map(|about| (about.dev(), about.ino()));
        if let (Some(json), Some(svg)) = (&self.json, &self.svg)
            && identity(json) == identity(svg)
        {
            return Err(Failure::Usage(format!(
                "--json and --svg name the same file, {}",
                svg.path.display()
            )));
        }
        Ok(self)
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

/// Fails if a path names something that this program has not written: a file that does not begin with `begins`, or a block device.
/// Empty files, pipes and terminals are for whatever is written to them.
pub(crate) fn check_own(path: &Path, begins: &str) -> Result<(), Failure> {
    let Ok(about) = std::fs::metadata(path) else { return Ok(()) };
    let refused =
        |reason: String| Err(Failure::file(path)(io::Error::new(io::ErrorKind::AlreadyExists, reason)));
    if about.file_type().is_block_device() {
        return refused("it is a block device, whose data would be lost: choose another name".into());
    }
    if !about.is_file() || about.len() == 0 {
        return Ok(());
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(Failure::file(path))?;
    file.take(begins.len() as u64).read_to_end(&mut start).map_err(Failure::file(path))?;
    match start == begins.as_bytes() {
        true => Ok(()),
        false => refused(format!(
            "it is not the output of an earlier run, which begins with {begins:?}, and would be lost: choose another name, or \
             remove it"
        )),
    }
}

/// A file that is written later.
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
}

impl OutputFile {
    /// Opens a file, which is new or one of an earlier run, whose files begin with `begins`. What is in it stays until it is written.
    pub(crate) fn open(path: &Path, begins: &str) -> Result<Self, Failure> {
        check_own(path, begins)?;
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
