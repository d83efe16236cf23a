//! Where a copy goes: what is made for it, and what becomes of that at the end.

use super::image::NewImage;
use super::options::Options;
use crate::access::Access;
use crate::device::{Opener, Prepared, Source};
use crate::failure::Failure;
use crate::nfs::RemotePartial;
use crate::partial::PartialFile;
use crate::rbd::PIECE;
use onego::block::copy::{Copier, CopyPlan};
use onego::block::{Device, Host};
use onego::nfs::SetAttributes;
use onego_disk::Disk;
use rustix::io::Errno;
use std::path::Path;
use std::rc::Rc;

/// What is being written.
pub(super) enum Destination {
    /// A file of this machine, beside its name.
    File(Box<PartialFile>),
    /// A file on a server, beside its name.
    Remote(Box<RemotePartial>),
    /// An image that was made for the copy.
    Image(Box<NewImage>),
    /// What was there before.
    Existing,
}

/// A destination that is open.
pub(super) struct Begun {
    pub(super) destination: Destination,
    pub(super) device: Rc<dyn Device>,
    /// The first byte that is not there.
    pub(super) start: u64,
    /// There is nothing from there on.
    pub(super) reads_as_zeros: bool,
}

impl Destination {
    /// Opens the destination of a copy of `size` bytes, and makes it if it can be made.
    pub(super) fn open(
        access: &Access,
        options: &Options,
        host: &mut Host<Copier>,
        opener: &mut Opener<'_>,
        size: u64,
    ) -> Result<Begun, Failure> {
        match &options.destination {
            Source::Disk(path) if !options.in_place && !is_block_device(path) => {
                file(options, host, opener, path, size)
            }
            Source::Nfs(url) if !options.in_place => {
                let (mount, path) = host.mount(&url.config(access)?, url.path())?;
                let partial = RemotePartial::open(&mount, &path, (None, None), options.existing());
                let partial = host.block_on(partial)??;
                let file = partial.file().clone();
                let start = if options.resume { behind(file.opened().size, size)? } else { 0 };
                let device = host.file(file, size, false)?;
                let destination = Self::Remote(Box::new(partial));
                Ok(Begun { destination, device, start, reads_as_zeros: true })
            }
            Source::Image(spec) if !options.in_place => {
                let (image, device, start) = NewImage::open(options, host, opener, spec, size)?;
                let destination = Self::Image(Box::new(image));
                Ok(Begun { destination, device, start, reads_as_zeros: true })
            }
            other => existing(access, options, host, opener, other),
        }
    }

    /// All bytes before `done` are there: remembers it now and then, where that is done.
    pub(super) fn mark(&mut self, host: &mut Host<Copier>, done: u64) -> Result<(), Failure> {
        match self {
            Self::Image(image) => image.mark(host, done),
            Self::File(_) | Self::Remote(_) | Self::Existing => Ok(()),
        }
    }

    /// All `size` bytes are there, and durable.
    pub(super) fn finish(self, host: &mut Host<Copier>, size: u64) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                // What ends in a hole is longer than what was written.
                file.file().set_len(size).map_err(Failure::file(file.path()))?;
                file.finish()
            }
            Self::Remote(mut partial) => {
                let attributes = SetAttributes { size: Some(size), ..SetAttributes::default() };
                let finished = async {
                    partial.file().set_attributes(attributes).await?;
                    partial.finish().await
                };
                Ok(host.block_on(finished)??)
            }
            Self::Image(image) => image.finish(host),
            Self::Existing => Ok(()),
        }
    }

    /// The copy ends early: says what is left, and how to go on.
    pub(super) fn abandon(self, host: &mut Host<Copier>, done: u64) {
        match self {
            Self::Image(image) => image.abandon(host, done),
            // They say it themselves.
            Self::File(_) | Self::Remote(_) | Self::Existing => {}
        }
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
}

fn file(
    options: &Options,
    host: &mut Host<Copier>,
    opener: &mut Opener<'_>,
    path: &Path,
    size: u64,
) -> Result<Begun, Failure> {
    if path.is_dir() {
        return Err(Failure::Usage(format!("{} is a directory: name the file in it", path.display())));
    }
    // Advice to remove what is there would be bad advice.
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        let what = "is neither a file nor a block device: choose another name";
        return Err(Failure::Usage(format!("{} {what}", path.display())));
    }
    // What has its own name is whole.
    if options.resume && path.exists() {
        return Err(Failure::file(path)(Errno::EXIST.into()));
    }
    let partial = PartialFile::open(path, options.existing())?;
    let start = behind(partial.len(), size)?;
    let file = partial.file().try_clone().map_err(Failure::file(path))?;
    let device = opener.disks(host)?.device(&Disk::growing(partial.path(), file, size));
    Ok(Begun { destination: Destination::File(Box::new(partial)), device, start, reads_as_zeros: true })
}

/// Where to go on with a file of that length: its last bytes were on their way together.
fn behind(length: u64, size: u64) -> Result<u64, Failure> {
    if length > size {
        return Err(Failure::Usage(
            "there is more already than there is to copy: it is of another source, so remove it".into(),
        ));
    }
    Ok(length.saturating_sub(CopyPlan::SPAN + PIECE) / PIECE * PIECE)
}

fn existing(
    access: &Access,
    options: &Options,
    host: &mut Host<Copier>,
    opener: &mut Opener<'_>,
    source: &Source,
) -> Result<Begun, Failure> {
    if options.resume || options.replace {
        return Err(Failure::Usage(format!(
            "{source} does not say how much of it is copied, and is written in place: leave --resume and --replace out"
        )));
    }
    let device = opener.open(host, &Prepared::new(access, source, false)?, false)?;
    let reads_as_zeros = matches!(source, Source::Memory(_) | Source::Null(_));
    Ok(Begun { destination: Destination::Existing, device, start: 0, reads_as_zeros })
}
