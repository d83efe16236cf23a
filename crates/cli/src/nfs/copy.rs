//! `onego nfs cp`, `put` and `cat`: bytes of files, from one place to another.

use super::change::is_url;
use crate::access::Access;
use crate::cp::{self, CopyJob, Copying, Tuning};
use crate::device::{FileArgs, Source as Device};
use crate::failure::Failure;
use crate::identity::{Identity, SETTLED, SourceFacts};
use crate::nfs_files::RemotePartial;
use crate::nfs_files::{Target, Url};
use crate::output;
use crate::partial::{Existing, PartialFile};
use crate::partial_import::IncompleteArgs;
use clap::builder::{OsStringValueParser, TypedValueParser};
use onego::block::copy::{CopyError, data_in};
use onego::nfs::{File, FileType};
use onego::{List, SegmentMut};
use onego_bench::report::progress::Progress;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

pub(super) const CP_EXAMPLES: &str = "\
Examples:
  onego nfs cp nfs://server/export/debian.img debian.img
  onego nfs cp debian.img nfs://server/export/images/
  onego nfs cp --resume nfs://one/export/big nfs://two/export/big

One of both is a URL at least. What is copied to a directory keeps its name. The copy is called .NAME.onego-partial until
it is whole, and then replaces what is there. It gets the permissions and the time of its source, or keeps the permissions of
the file that it replaces; zeros become holes. If it is interrupted, --resume goes on with it, or with the file itself, whose
bytes then have to be the beginning of the source. It compares what is there with the source as \"onego cp\" does.";

/// Bytes of one read of a stream.
const PIECE: usize = 1 << 20;

/// Bytes of a block that is left out if it is zeros.
const GRAIN: usize = 4096;

/// What a path is called that means standard input or output.
const STANDARD: &str = "-";

/// A file here or on a server.
#[derive(Debug, Clone)]
enum CopyEnd {
    Here(PathBuf),
    There(Box<Url>),
}

impl CopyEnd {
    /// Reads files from the command line, where names may be any bytes.
    fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text| match is_url(&text) {
            true => Url::from_os(&text).map(|url| Self::There(Box::new(url))),
            false => Ok(Self::Here(text.into())),
        })
    }
}

#[derive(clap::Args)]
pub(crate) struct CpOptions {
    /// What to copy: a URL, or a file here ("-": standard input)
    #[arg(value_name = "FROM", value_parser = CopyEnd::parser())]
    from: CopyEnd,
    /// Where to: a URL, or a file or directory here ("-": standard output)
    #[arg(value_name = "TO", value_parser = CopyEnd::parser())]
    to: CopyEnd,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
pub(crate) struct PutOptions {
    /// The file here; "-": standard input
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Where to: a file or a directory on a server
    #[arg(value_name = "URL", value_parser = Url::parser())]
    to: Url,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
struct How {
    /// Go on where an earlier copy has stopped
    #[arg(long)]
    resume: bool,
    /// Refuse to overwrite
    #[arg(long, conflicts_with = "resume")]
    no_clobber: bool,
    /// Write to the file itself: half a copy then has its name
    #[arg(long, conflicts_with_all = ["resume", "no_clobber"])]
    in_place: bool,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

impl How {
    fn existing(&self) -> Existing {
        match self {
            Self { resume: true, .. } => Existing::Resume,
            Self { no_clobber: true, .. } => Existing::Refuse,
            Self { in_place: true, .. } => Existing::InPlace,
            _ => Existing::Replace,
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct CatOptions {
    /// The files
    #[arg(value_name = "URL", required = true, value_parser = Url::parser())]
    urls: Vec<Url>,
}

pub(super) fn cp(access: &Access, options: &CpOptions) -> Result<(), Failure> {
    if let (CopyEnd::Here(_), CopyEnd::Here(_)) = (&options.from, &options.to) {
        return Err(Failure::Usage("one of both has to be a URL: nfs://HOST/EXPORT/PATH".to_owned()));
    }
    copy(access, &options.from, &options.to, &options.how)
}

pub(super) fn put(access: &Access, options: &PutOptions) -> Result<(), Failure> {
    let (from, to) = (CopyEnd::Here(options.from.clone()), CopyEnd::There(Box::new(options.to.clone())));
    copy(access, &from, &to, &options.how)
}

pub(super) fn cat(access: &Access, options: &CatOptions) -> Result<(), Failure> {
    for url in &options.urls {
        let mut source = Stream::there(access, url)?;
        let mut out = io::stdout().lock();
        while let Some(bytes) = source.next()? {
            write(&mut out, &bytes)?;
        }
        out.flush().map_err(output::failed)?;
    }
    Ok(())
}

fn copy(access: &Access, from: &CopyEnd, to: &CopyEnd, how: &How) -> Result<(), Failure> {
    if from.is_stream() || from.is_empty() || to.is_stream() {
        return copy_stream(access, from, to, how);
    }
    let (source, destination) = (from.device(), to.device());
    let overwrites = matches!(to, CopyEnd::Here(path) if cp::is_block_device(path));
    if overwrites && how.resume {
        let why = "is a device, and keeps no record of unfinished copies: leave --resume out";
        return Err(Failure::Usage(format!("{destination} {why}")));
    }
    let existing = match how.existing() {
        Existing::Refuse if overwrites => {
            return Err(Failure::file(Path::new(&destination.to_string()))(
                io::ErrorKind::AlreadyExists.into(),
            ));
        }
        _ if overwrites => Existing::InPlace,
        existing => existing,
    };
    let job = CopyJob {
        source: &source,
        destination: &destination,
        existing,
        overwrites,
        into_directory: true,
        adopts: true,
        destination_is_zero: false,
        depth: cp::DEPTH.into(),
        pool: None,
        shows_progress: !how.no_progress,
        files: FileArgs::RAW,
        incomplete: IncompleteArgs::default(),
        shape: None,
    };
    Copying::begin(access, None, &job, &Tuning::default())?.run(!how.no_progress).map(drop)
}

/// Copies what can only be read, or written, from its begin to its end.
fn copy_stream(access: &Access, from: &CopyEnd, to: &CopyEnd, how: &How) -> Result<(), Failure> {
    let mut source = Stream::open(access, from)?;
    let mut sink = Sink::open(access, to, &source.facts()?, how)?;
    let mut rest = sink.resume(&mut source, !how.no_progress)?;
    let progress = Progress::of_bytes("Copying", source.len(), !how.no_progress);
    let mut at = sink.at();
    loop {
        let bytes = match std::mem::take(&mut rest) {
            rest if !rest.is_empty() => rest,
            _ => match source.next()? {
                Some(bytes) => bytes,
                None => break,
            },
        };
        at += bytes.len() as u64;
        sink.write(bytes)?;
        progress.at(at);
    }
    sink.finish()?;
    progress.finish();
    Ok(())
}

impl CopyEnd {
    /// Returns whether it can only be read or written from its begin to its end.
    fn is_stream(&self) -> bool {
        let Self::Here(path) = self else { return false };
        let is_pipe =
            |about: fs::Metadata| !about.is_file() && !about.is_dir() && !about.file_type().is_block_device();
        path == Path::new(STANDARD) || fs::metadata(path).is_ok_and(is_pipe)
    }

    /// Returns whether it is a file here without a length, which may have bytes all the same, as those in `/proc` do.
    fn is_empty(&self) -> bool {
        let Self::Here(path) = self else { return false };
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0)
    }

    fn device(&self) -> Device {
        match self {
            Self::Here(path) => Device::Disk(path.clone()),
            Self::There(url) => Device::Nfs(url.clone()),
        }
    }
}

/// A source that is read in order.
enum Stream {
    Input,
    Here { path: PathBuf, file: fs::File },
    There(Box<Reading>),
}

/// A file on a server that is read.
struct Reading {
    target: Target,
    file: File,
    reader: onego::nfs::Reader,
    name: Vec<u8>,
    /// Bytes that were read.
    at: u64,
}

impl Stream {
    fn open(access: &Access, place: &CopyEnd) -> Result<Self, Failure> {
        match place {
            CopyEnd::There(url) => Self::there(access, url),
            CopyEnd::Here(path) if path == Path::new(STANDARD) => Ok(Self::Input),
            CopyEnd::Here(path) => {
                let file = fs::File::open(path).map_err(Failure::file(path))?;
                Ok(Self::Here { path: path.clone(), file })
            }
        }
    }

    fn there(access: &Access, url: &Url) -> Result<Self, Failure> {
        let mut target = url.mount(access)?;
        let file = target.reactor.block_on(target.mount.open(&target.path))??;
        if file.opened().file_type == FileType::Directory {
            return Err(Failure::Usage(format!("{url} is a directory")));
        }
        let (reader, name) = (file.reader(0), url.name().to_vec());
        Ok(Self::There(Box::new(Reading { target, file, reader, name, at: 0 })))
    }

    fn facts(&self) -> Result<SourceFacts, Failure> {
        match self {
            Self::Input => Ok(SourceFacts::of_input()),
            Self::Here { path, file } => {
                let about = file.metadata().map_err(Failure::file(path))?;
                Ok(SourceFacts::here(&about, path.file_name().map(OsStrExt::as_bytes)))
            }
            Self::There(reading) => Ok(SourceFacts::there(reading.file.opened(), &reading.name)),
        }
    }

    /// Number of bytes, if that is known.
    fn len(&self) -> Option<u64> {
        match self {
            Self::Input | Self::Here { .. } => None,
            Self::There(reading) => Some(reading.file.opened().size),
        }
    }

    /// The next bytes, until there are none. A file that became shorter meanwhile is an error.
    fn next(&mut self) -> Result<Option<List>, Failure> {
        match self {
            Self::Input => read(&mut io::stdin().lock()).map_err(Failure::io(INPUT)),
            Self::Here { path, file } => read(file).map_err(Failure::file(path)),
            Self::There(reading) => {
                let Reading { target, reader, file, at, .. } = &mut **reading;
                let bytes = target.reactor.block_on(reader.next())??;
                *at += bytes.as_ref().map_or(0, List::len) as u64;
                let before = file.opened().size;
                match bytes {
                    None if *at < before => Err(CopyError::Resized { before, now: *at }.into()),
                    bytes => Ok(bytes),
                }
            }
        }
    }
}

const INPUT: &str = "reading standard input";

/// Reads a piece. `None`: there is no more.
fn read(from: &mut impl Read) -> io::Result<Option<List>> {
    let (mut piece, mut filled) = (SegmentMut::zeroed(PIECE), 0);
    while filled < piece.len() {
        match from.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(filled);
    Ok((filled > 0).then(|| piece.freeze().into()))
}

fn write(to: &mut impl Write, bytes: &List) -> Result<(), Failure> {
    bytes.segments().try_for_each(|piece| to.write_all(piece)).map_err(output::failed)
}

/// A destination that is written in order.
enum Sink {
    Output,
    Here { file: Box<PartialFile>, facts: Box<SourceFacts>, at: u64 },
    There(Box<Writing>),
}

/// A file on a server that is written.
struct Writing {
    target: Target,
    partial: RemotePartial,
    facts: SourceFacts,
    /// The file, once it is begun.
    file: Option<(File, onego::nfs::Writer)>,
    at: u64,
}

impl Sink {
    /// Opens the destination of a copy, unless it is the source itself.
    fn open(access: &Access, place: &CopyEnd, facts: &SourceFacts, how: &How) -> Result<Self, Failure> {
        let facts = facts.clone();
        match place {
            CopyEnd::There(url) => {
                let mut target = url.mount(access)?;
                let opened = RemotePartial::open(&target.mount, &target.path, &facts, how.existing(), true);
                let partial = target.reactor.block_on(opened)??;
                Ok(Self::There(Box::new(Writing { target, partial, facts, file: None, at: 0 })))
            }
            CopyEnd::Here(path) if path == Path::new(STANDARD) => {
                let about = rustix::io::dup(io::stdout()).map(fs::File::from).map(|file| file.metadata());
                let identity = about.ok().and_then(Result::ok).and_then(|about| Identity::here(&about));
                if facts.is(identity.as_ref()) {
                    return Err(Failure::Usage("standard output is the source itself".to_owned()));
                }
                Ok(Self::Output)
            }
            CopyEnd::Here(path) => {
                let path = match &facts.name {
                    Some(name) if path.is_dir() => path.join(OsStr::from_bytes(name)),
                    _ => path.clone(),
                };
                let file = Box::new(PartialFile::open(&path, how.existing(), &[&facts])?);
                Ok(Self::Here { file, facts: Box::new(facts), at: 0 })
            }
        }
    }

    /// Reads the bytes of the source that an earlier copy left here, and fails unless they are equal; then begins. Returns
    /// bytes of the source that were read and are to be written.
    fn resume(&mut self, source: &mut Stream, shows_progress: bool) -> Result<List, Failure> {
        let (mut at, end) = (0, self.reliable());
        let progress = Progress::of_bytes("Comparing", Some(end), shows_progress && end > 0);
        let mut rest = List::new();
        while at < end {
            let Some(mut bytes) = source.next()? else {
                return Err(Failure::Usage(format!(
                    "the source ends at {at}, and more than {end} bytes are copied"
                )));
            };
            let compared = bytes.split_to(bytes.len().min((end - at) as usize));
            if self.read(at, compared.len())? != compared.to_vec() {
                return Err(Failure::Usage(format!(
                    "what is copied differs from the source at byte {at} or after: it is a copy of another source; remove \
                     it, or copy without --resume"
                )));
            }
            at += compared.len() as u64;
            progress.at(at);
            rest = bytes;
        }
        progress.finish();
        self.begin(end)?;
        Ok(rest)
    }

    /// First bytes of an earlier copy that neither writes in flight nor a crash of the server can have left out.
    fn reliable(&self) -> u64 {
        match self {
            Self::Output => 0,
            Self::Here { file, .. } => file.len(),
            Self::There(writing) => {
                let len = writing.partial.earlier().map_or(0, |(_, len)| len);
                let lost = Tuning::default().unstable;
                if writing.partial.is_adopted() { len } else { len.saturating_sub(lost) }
            }
        }
    }

    /// Bytes of an earlier copy.
    fn read(&mut self, at: u64, len: usize) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Output => Ok(Vec::new()),
            Self::Here { file, .. } => {
                let mut bytes = vec![0; len];
                file.file().read_exact_at(&mut bytes, at).map_err(Failure::file(file.place()))?;
                Ok(bytes)
            }
            Self::There(writing) => {
                let Writing { target, partial, .. } = &mut **writing;
                let Some((file, _)) = partial.earlier() else { return Ok(Vec::new()) };
                Ok(target.reactor.block_on(file.read(at, len))??.to_vec())
            }
        }
    }

    fn begin(&mut self, keep: u64) -> Result<(), Failure> {
        match self {
            Self::Output => Ok(()),
            Self::Here { file, facts, at } => {
                *at = keep;
                file.begin(facts.record(SETTLED).as_deref(), keep)
            }
            Self::There(writing) => {
                let Writing { target, partial, facts, file, at } = &mut **writing;
                *at = keep;
                let begun = target.reactor.block_on(partial.begin(facts, facts.record(SETTLED), keep))??;
                let writer = begun.writer(keep);
                *file = Some((begun, writer));
                Ok(())
            }
        }
    }

    /// Offset of the next write.
    fn at(&self) -> u64 {
        match self {
            Self::Output => 0,
            Self::Here { at, .. } => *at,
            Self::There(writing) => writing.at,
        }
    }

    fn write(&mut self, bytes: List) -> Result<(), Failure> {
        match self {
            Self::Output => write(&mut io::stdout().lock(), &bytes),
            Self::Here { file, .. } if file.is_special() => {
                let mut to = file.file();
                bytes.segments().try_for_each(|piece| to.write_all(piece)).map_err(Failure::file(file.path()))
            }
            Self::Here { file, at, .. } => {
                let bytes = bytes.to_segment();
                let parts = data_in([&bytes[..]], GRAIN).into_iter();
                let mut written =
                    parts.map(|part| file.file().write_all_at(&bytes[part.clone()], *at + part.start as u64));
                written.try_for_each(|done| done).map_err(Failure::file(file.path()))?;
                *at += bytes.len() as u64;
                Ok(())
            }
            Self::There(writing) => writing.write(bytes),
        }
    }

    /// All bytes are given: makes them durable, and gives the file its name.
    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Output => io::stdout().flush().map_err(output::failed),
            Self::Here { file, facts, at } => {
                if !file.is_special() {
                    file.file().set_len(at).map_err(Failure::file(file.path()))?;
                }
                file.finish(&facts)
            }
            Self::There(mut writing) => writing.finish(),
        }
    }
}

impl Writing {
    fn write(&mut self, mut bytes: List) -> Result<(), Failure> {
        let Self { target, file: Some((_, writer)), at, .. } = self else { return Ok(()) };
        let parts = data_in(bytes.segments().map(|segment| &segment[..]), GRAIN);
        let (mut done, len) = (0, bytes.len());
        for part in parts {
            bytes.advance(part.start - done);
            writer.skip((part.start - done) as u64);
            done = part.end;
            target.reactor.block_on(writer.write(bytes.split_to(part.len())))??;
        }
        writer.skip((len - done) as u64);
        *at += len as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let Self { target, partial, facts, file, at } = self;
        let Some((file, writer)) = file.take() else { return Ok(()) };
        let finished = async {
            writer.finish().await?;
            partial.finish(&file, facts, *at).await
        };
        Ok(target.reactor.block_on(finished)??)
    }
}
