//! Files as devices: those whose bytes are a disk's, and those that contain a disk in another form.

use crate::failure::Failure;
use crate::spec::SnapSpec;
use onego_disk::{Backing, Disk, FileFormat, OpenError};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Treatment of files that contain a disk in another form.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(crate) struct FileArgs {
    /// Read and write the bytes of files as they are, whatever format they have
    #[arg(long)]
    pub(crate) raw: bool,
    /// Open the files that a qcow2 file names: its backing file and its external data file
    #[arg(long, conflicts_with = "raw")]
    follow_backing_files: bool,
}

impl FileArgs {
    /// Takes the bytes of every file as they are.
    pub(crate) const RAW: Self = Self { raw: true, follow_backing_files: false };

    /// Opens a file or block device. A qcow2 file is the disk in it, which is only read; other formats are refused.
    pub(crate) fn open(self, path: &Path, read_only: bool) -> Result<Disk, Failure> {
        let disk = Disk::open(path, read_only).map_err(|error| hint_at_image(error.into(), path))?;
        match self.format(&disk)? {
            None => Ok(disk),
            Some(FileFormat::Qcow2) if read_only => Ok(disk.into_container(self.backing())?),
            Some(FileFormat::Qcow2) => Err(Failure::Usage(format!(
                "{} is a qcow2 file, and the disk in it cannot be written to: open it with --read-only, or write the bytes of the \
                 file with --raw",
                path.display()
            ))),
            Some(format) => Err(refusal(path.display(), format)),
        }
    }

    /// Returns the format of a file, unless its bytes are taken as they are.
    fn format(self, disk: &Disk) -> Result<Option<FileFormat>, Failure> {
        if self.raw { Ok(None) } else { disk.format().map_err(Failure::file(disk.path())) }
    }

    /// Fails if the first and last bytes of a file on a server are those of a format.
    pub(crate) fn check_remote(self, shown: impl Display, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        match FileFormat::of_bytes(head, tail) {
            Some(FileFormat::Qcow2) if !self.raw => Err(Failure::Usage(format!(
                "{shown} is a qcow2 file, which is read only from this machine: copy it here with \"onego nfs cp\" first, or take its \
                 bytes as they are with --raw"
            ))),
            Some(format) if !self.raw => Err(refusal(shown, format)),
            _ => Ok(()),
        }
    }

    pub(crate) fn backing(self) -> Backing {
        if self.follow_backing_files { Backing::Follow } else { Backing::Refuse }
    }
}

/// Returns the error of a file in a format that is not read.
pub(crate) fn refusal(shown: impl Display, format: FileFormat) -> Failure {
    Failure::Usage(match format.decompressor() {
        Some(program) => format!(
            "{shown} is compressed ({format}): decompress it first, as in \"{program} {shown} | onego rbd import - IMAGE\", or take \
             its bytes as they are with --raw"
        ),
        None => format!(
            "{shown} is a {format} file, which is not read: convert it with \"qemu-img convert -O raw\", or take its bytes as they \
             are with --raw"
        ),
    })
}

/// Returns the failure to find a path with a hint, if the path reads as the name of an image.
pub(crate) fn hint_at_image(failure: Failure, path: &Path) -> Failure {
    let is_missing = match &failure {
        Failure::File { source, .. } | Failure::Disk(OpenError::Io { source, .. }) => {
            source.kind() == io::ErrorKind::NotFound
        }
        _ => false,
    };
    let Some(name) = path.to_str().filter(|name| is_missing && is_image_name(name)) else { return failure };
    let hint = io::Error::new(
        io::ErrorKind::NotFound,
        format!("No such file or directory: did you mean rbd:{name}?"),
    );
    match failure {
        Failure::File { path, .. } => Failure::File { path, source: hint },
        _ => Failure::Disk(OpenError::Io { path: path.to_owned(), source: hint }),
    }
}

/// Returns whether a path of a missing directory is POOL/[NAMESPACE/]IMAGE.
fn is_image_name(name: &str) -> bool {
    let is_path = name.starts_with(['.', '/', '~']) || !name.contains('/');
    let directory = Path::new(name).components().next();
    !is_path && name.parse::<SnapSpec>().is_ok() && directory.is_some_and(|first| !Path::new(&first).exists())
}

/// Returns the format that a new file of that name gets. Fails for a name of a format that is not written.
pub(crate) fn format_of_new(path: &Path) -> Result<Option<FileFormat>, Failure> {
    match FileFormat::of_name(path) {
        format @ (None | Some(FileFormat::Qcow2)) => Ok(format),
        Some(format) => Err(Failure::Usage(format!(
            "{} is the name of a {format} file, which is not written: choose another name and convert it afterwards, or write the \
             bytes of the disk under that name with --raw",
            path.display()
        ))),
    }
}
