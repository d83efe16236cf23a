//! Destinations of copies: made, continued, and finished.

use super::earlier::{Earlier, Tuning};
use super::image::NewImage;
use super::job::CopyJob;
use crate::access::Access;
use crate::device::{Opener, Prepared, Source, format_of_new, hint_at_image};
use crate::failure::Failure;
use crate::identity::{Identity, SourceFacts};
use crate::nfs_files::RemotePartial;
use crate::partial::{Existing, PartialFile};
use crate::partial_import::IncompleteArgs;
use onego::block::copy::Copier;
use onego::block::{Device, Host};
use onego::nfs::File;
use onego_disk::Disk;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is being written.
pub(super) enum Destination {
    /// A file of this machine, next to its name.
    File(Box<PartialFile>),
    /// The same, with the disk in qcow2.
    Qcow2(Box<PartialFile>),
    /// A file on a server, next to its name.
    Remote(Box<(RemotePartial, File)>),
    /// An image that was made for the copy.
    Image(Box<NewImage>),
    /// A device that existed before.
    Existing,
}

/// A destination that is open.
pub(super) struct Begun {
    pub(super) destination: Destination,
    pub(super) device: Rc<dyn Device>,
    /// The first byte to copy.
    pub(super) start: u64,
    /// There is nothing from there on.
    pub(super) reads_as_zeros: bool,
}

/// The source of a copy, and how much of it there is.
pub(super) struct From {
    pub(super) device: Rc<dyn Device>,
    pub(super) facts: SourceFacts,
    pub(super) size: u64,
}

impl Destination {
    /// Opens the destination of a copy, and makes it if it can be made. What exists is changed after all checks.
    pub(super) fn open(
        access: &Access,
        job: &CopyJob<'_>,
        host: &mut Host<Copier>,
        opener: &mut Opener<'_>,
        from: &From,
        tuning: &Tuning,
    ) -> Result<Begun, Failure> {
        match job.destination {
            Source::Disk(path) if !job.overwrites && !is_block_device(path) => {
                file(job, host, opener, path, from, tuning)
            }
            Source::Nfs(url) if !job.overwrites => {
                check_remote_name(job, url.path())?;
                let (mount, path) = host.mount(&url.config(access)?, url.path())?;
                let opened =
                    RemotePartial::open(&mount, &path, &from.facts, job.existing, job.into_directory);
                let partial = host.block_on(opened)??;
                remote(job, host, partial, from, tuning)
            }
            Source::Image(spec) if !job.overwrites => NewImage::open(job, host, opener, spec, from, tuning),
            other => existing(access, job, host, opener, other, from),
        }
    }

    /// All bytes before `done` are there: remembers it now and then, where that is done.
    pub(super) fn mark(&mut self, host: &mut Host<Copier>, done: u64) -> Result<(), Failure> {
        match self {
            Self::Image(image) => image.mark(host, done),
            Self::File(file) => file.written(done),
            Self::Qcow2(_) | Self::Remote(_) | Self::Existing => Ok(()),
        }
    }

    /// All bytes are there, and durable.
    pub(super) fn finish(self, host: &mut Host<Copier>, from: &From) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                // A hole at the end was not written.
                file.file().set_len(from.size).map_err(Failure::file(file.path()))?;
                file.finish(&from.facts)
            }
            // Its header has the size.
            Self::Qcow2(file) => file.finish(&from.facts),
            Self::Remote(mut remote) => {
                let (partial, file) = &mut *remote;
                Ok(host.block_on(partial.finish(file, &from.facts, from.size))??)
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
            Self::File(mut file) => {
                let _ = file.written(done);
                file.abandon();
            }
            Self::Qcow2(_) | Self::Remote(_) | Self::Existing => {}
        }
    }
}

/// Fails if the name of a new file on a server stands for a format: only raw bytes are written there.
fn check_remote_name(job: &CopyJob<'_>, path: &[u8]) -> Result<(), Failure> {
    if job.files.raw {
        return Ok(());
    }
    let path = Path::new(OsStr::from_bytes(path));
    match format_of_new(path)? {
        Some(format) => Err(Failure::Usage(format!(
            "{} is the name of a {format} file, which is written only on this machine: copy it there afterwards with \"onego nfs cp\", \
             or write the bytes of the disk under that name with --raw",
            path.display()
        ))),
        None => Ok(()),
    }
}

pub(crate) fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
}

/// The file to write to: in a directory, that of the source's name.
fn target(job: &CopyJob<'_>, path: &Path, from: &From) -> Result<PathBuf, Failure> {
    let path = match &from.facts.name {
        Some(name) if job.into_directory && path.is_dir() => path.join(OsStr::from_bytes(name)),
        _ => path.to_owned(),
    };
    let about = path.metadata();
    if about.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Err(Failure::Usage(format!("{} is a directory: name the file in it", path.display())));
    }
    // Advice to remove what is there would be bad advice.
    if about.as_ref().is_ok_and(|about| !about.is_file()) {
        let what = "is neither a file nor a block device: choose another name";
        return Err(Failure::Usage(format!("{} {what}", path.display())));
    }
    let identity = about.ok().and_then(|about| Identity::here(&about));
    refuse_itself(from, identity.as_ref(), path.display())?;
    Ok(path)
}

/// Fails if the source of a copy is its destination.
fn refuse_itself(from: &From, to: Option<&Identity>, shown: impl Display) -> Result<(), Failure> {
    if from.facts.is(to) {
        let why = format!("{shown} is the source itself: a copy onto itself could lose it");
        return Err(Failure::Usage(why));
    }
    Ok(())
}

fn file(
    job: &CopyJob<'_>,
    host: &mut Host<Copier>,
    opener: &mut Opener<'_>,
    path: &Path,
    from: &From,
    tuning: &Tuning,
) -> Result<Begun, Failure> {
    let path = target(job, path, from)?;
    if !job.files.raw && format_of_new(&path)?.is_some() {
        return qcow2(job, host, opener, &path, from);
    }
    // What has its own name is whole.
    if job.existing == Existing::Resume && !job.adopts && path.exists() {
        return Err(Failure::file(&path)(Errno::EXIST.into()));
    }
    let partial = PartialFile::open(&path, job.existing, &[&from.facts]);
    let mut partial = partial.map_err(|failure| hint_at_image(failure, &path))?;
    partial.sync_every(tuning.sync_every);
    let file = partial.file().try_clone().map_err(Failure::file(&path))?;
    let device = opener.disks(host)?.device(&Disk::growing(partial.path(), file, from.size));
    let mut start = 0;
    if job.existing == Existing::Resume {
        let shown = partial.place().display().to_string();
        let (len, reliable, recorded) = (partial.len(), partial.reliable(), partial.recorded());
        let is_whole = partial.is_adopted();
        let earlier = Earlier { device: &device, len, reliable, recorded, shown: &shown, is_whole };
        start = earlier.check(host, from, tuning, job.shows_progress)?;
    }
    partial.begin(from.facts.record(tuning.settled).as_deref(), start)?;
    Ok(Begun { destination: Destination::File(Box::new(partial)), device, start, reads_as_zeros: true })
}

/// Makes a qcow2 file. Its metadata is in memory until the end, so what an earlier run has left is of no use.
fn qcow2(
    job: &CopyJob<'_>,
    host: &mut Host<Copier>,
    opener: &mut Opener<'_>,
    path: &Path,
    from: &From,
) -> Result<Begun, Failure> {
    if job.existing == Existing::Resume {
        let why = "is a qcow2 file, and a copy to one always begins with the first byte: leave --resume out";
        return Err(Failure::Usage(format!("{} {why}", path.display())));
    }
    let mut partial = PartialFile::open(path, job.existing, &[&from.facts])?;
    partial.begin(None, 0)?;
    partial.discard_unless_finished();
    let file = partial.file().try_clone().map_err(Failure::file(path))?;
    let device = opener.disks(host)?.device(&Disk::new_container(partial.path(), file, from.size)?);
    let destination = Destination::Qcow2(Box::new(partial));
    Ok(Begun { destination, device, start: 0, reads_as_zeros: true })
}

fn remote(
    job: &CopyJob<'_>,
    host: &mut Host<Copier>,
    mut partial: RemotePartial,
    from: &From,
    tuning: &Tuning,
) -> Result<Begun, Failure> {
    let mut start = 0;
    if let Some((file, len)) = partial.earlier() {
        let device = host.file(file.clone(), len.max(from.size), true)?;
        let (recorded, shown) = (partial.recorded(), format!("{} on the server", partial.place()));
        // Writes that were in flight together, and those that a server kept in memory and lost with a crash.
        let reliable = len.saturating_sub(tuning.span + tuning.piece + tuning.unstable);
        let is_whole = partial.is_adopted();
        let earlier = Earlier { device: &device, len, reliable, recorded, shown: &shown, is_whole };
        start = earlier.check(host, from, tuning, job.shows_progress)?;
    }
    let file = host.block_on(partial.begin(&from.facts, from.facts.record(tuning.settled), start))??;
    let device = host.file(file.clone(), from.size, false)?;
    Ok(Begun {
        destination: Destination::Remote(Box::new((partial, file))),
        device,
        start,
        reads_as_zeros: true,
    })
}

fn existing(
    access: &Access,
    job: &CopyJob<'_>,
    host: &mut Host<Copier>,
    opener: &mut Opener<'_>,
    to: &Source,
    from: &From,
) -> Result<Begun, Failure> {
    if matches!(job.existing, Existing::Resume | Existing::Replace) {
        return Err(Failure::Usage(format!(
            "{to} does not say how much of it is copied, and is written in place: leave --resume and --replace out"
        )));
    }
    if let Source::Disk(path) = to {
        let about = path.metadata().ok();
        let identity = about.and_then(|about| Identity::here(&about));
        refuse_itself(from, identity.as_ref(), to)?;
    }
    let prepared = Prepared::new(access, to, false, job.files)?.with_incomplete(IncompleteArgs::ALLOWED);
    let (device, facts) = opener.open_known(host, &prepared, false)?;
    refuse_itself(from, facts.identity.as_ref(), to)?;
    let reads_as_zeros = matches!(to, Source::Memory(_) | Source::Null(_));
    Ok(Begun { destination: Destination::Existing, device, start: 0, reads_as_zeros })
}
