//! `onego nfs cp`, `put` and `cat`: bytes of files, from one place to another.

use super::change::is_url;
use super::identity::Identity;
use super::partial::RemotePartial;
use super::target::{Target, Url};
use crate::access::Access;
use crate::failure::Failure;
use crate::output;
use crate::partial::{Existing, PartialFile};
use clap::builder::{OsStringValueParser, TypedValueParser};
use onego::nfs::{File, FileType};
use onego::{List, SegmentMut};
use onego_bench::report::progress::Progress;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(super) const CP_EXAMPLES: &str = "\
Examples:
  onego nfs cp nfs://server/export/debian.img debian.img
  onego nfs cp debian.img nfs://server/export/images/
  onego nfs cp --resume nfs://one/export/big nfs://two/export/big

One of both is a URL at least. What is copied to a directory keeps its name. The copy is called .NAME.onego-partial until
it is whole, and then replaces what is there. If it is interrupted, --resume goes on with it, or with the file itself, which
is then taken for the beginning of what is copied.";

/// Bytes of one read of a local file.
const PIECE: usize = 1 << 20;

/// How far from the end of a file on a server an earlier copy may have left gaps: its last writes were under way together.
const BEHIND: u64 = 32 << 20;

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

    /// The last name on its path.
    fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Here(path) => Some(path.file_name()?.as_bytes()),
            Self::There(url) => Some(url.name()),
        }
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
        let mut source = Source::there(access, url)?;
        let mut out = io::stdout().lock();
        while let Some(bytes) = source.next()? {
            write(&mut out, &bytes)?;
        }
        out.flush().map_err(output::failed)?;
    }
    Ok(())
}

fn copy(access: &Access, from: &CopyEnd, to: &CopyEnd, how: &How) -> Result<(), Failure> {
    let mut source = Source::open(access, from)?;
    let mut sink = Sink::open(access, to, from.name(), source.identity()?, how)?;
    let done = sink.len();
    source.skip(done)?;
    let progress = Progress::of_bytes("Copying", source.len(), !how.no_progress);
    let mut at = done;
    while let Some(bytes) = source.next()? {
        at += bytes.len() as u64;
        sink.write(bytes)?;
        progress.at(at);
    }
    sink.finish()?;
    progress.finish();
    Ok(())
}

/// Where bytes come from.
enum Source {
    Input,
    Here { path: PathBuf, file: fs::File, len: u64 },
    There(Box<Reading>),
}

/// A file on a server that is read.
struct Reading {
    target: Target,
    file: File,
    reader: onego::nfs::Reader,
}

impl Source {
    fn open(access: &Access, place: &CopyEnd) -> Result<Self, Failure> {
        match place {
            CopyEnd::There(url) => Self::there(access, url),
            CopyEnd::Here(path) if path == Path::new(STANDARD) => Ok(Self::Input),
            CopyEnd::Here(path) => {
                let file = fs::File::open(path).map_err(Failure::file(path))?;
                let about = file.metadata().map_err(Failure::file(path))?;
                if about.is_dir() {
                    return Err(Failure::Usage(format!("{} is a directory", path.display())));
                }
                Ok(Self::Here { path: path.clone(), file, len: about.len() })
            }
        }
    }

    fn there(access: &Access, url: &Url) -> Result<Self, Failure> {
        let mut target = url.mount(access)?;
        let file = target.reactor.block_on(target.mount.open(&target.path))??;
        if file.opened().file_type == FileType::Directory {
            return Err(Failure::Usage(format!("{url} is a directory")));
        }
        let reader = file.reader(0);
        Ok(Self::There(Box::new(Reading { target, file, reader })))
    }

    /// Identity of the file; `None` for standard input and special files.
    fn identity(&self) -> Result<Option<Identity>, Failure> {
        match self {
            Self::Input => Ok(None),
            Self::Here { path, file, .. } => {
                let about = file.metadata().map_err(Failure::file(path))?;
                Ok(about.is_file().then(|| Identity::here(&about)))
            }
            Self::There(reading) => Ok(Some(Identity::there(reading.file.opened()))),
        }
    }

    /// How many bytes there are, if that is known.
    fn len(&self) -> Option<u64> {
        match self {
            Self::Input => None,
            Self::Here { len, .. } => Some(*len),
            Self::There(reading) => Some(reading.file.opened().size),
        }
    }

    /// Leaves out the first bytes.
    fn skip(&mut self, bytes: u64) -> Result<(), Failure> {
        if self.len().is_some_and(|len| len < bytes) {
            return Err(Failure::Usage("there is more already than there is to copy".to_owned()));
        }
        match self {
            Self::Input if bytes > 0 => {
                let skipped = io::copy(&mut io::stdin().lock().take(bytes), &mut io::sink());
                skipped.map(drop).map_err(Failure::io(INPUT))
            }
            Self::Input => Ok(()),
            Self::Here { path, file, .. } => {
                file.seek(io::SeekFrom::Start(bytes)).map(drop).map_err(Failure::file(path))
            }
            Self::There(reading) => {
                reading.reader = reading.file.reader(bytes);
                Ok(())
            }
        }
    }

    /// The next bytes, until there are none.
    fn next(&mut self) -> Result<Option<List>, Failure> {
        match self {
            Self::Input => read(&mut io::stdin().lock()).map_err(Failure::io(INPUT)),
            Self::Here { path, file, .. } => read(file).map_err(Failure::file(path)),
            Self::There(reading) => {
                let Reading { target, reader, .. } = &mut **reading;
                Ok(target.reactor.block_on(reader.next())??)
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

/// Where bytes go.
enum Sink {
    Output,
    Here(PartialFile),
    There(Box<Writing>),
}

/// A file on a server that is written.
struct Writing {
    target: Target,
    writer: Option<onego::nfs::Writer>,
    /// Bytes that are there already.
    len: u64,
    partial: RemotePartial,
}

impl Sink {
    /// Opens a place for what has that name, unless it is the file `source` itself.
    fn open(
        access: &Access,
        place: &CopyEnd,
        name: Option<&[u8]>,
        source: Option<Identity>,
        how: &How,
    ) -> Result<Self, Failure> {
        match place {
            CopyEnd::There(url) => Self::there(url.mount(access)?, name, source, how.existing()),
            CopyEnd::Here(path) if path == Path::new(STANDARD) => Ok(Self::Output),
            CopyEnd::Here(path) => {
                let path = if path.is_dir() {
                    path.join(OsStr::from_bytes(name.unwrap_or_default()))
                } else {
                    path.clone()
                };
                if source.is_some() && fs::metadata(&path).ok().map(|about| Identity::here(&about)) == source
                {
                    return Err(Failure::Usage(format!("{} is the source itself", path.display())));
                }
                let file = PartialFile::open(&path, how.existing())?;
                file.file().seek(io::SeekFrom::Start(file.len())).map_err(Failure::file(&path))?;
                Ok(Self::Here(file))
            }
        }
    }

    fn there(
        mut target: Target,
        name: Option<&[u8]>,
        source: Option<Identity>,
        existing: Existing,
    ) -> Result<Self, Failure> {
        let (mount, path) = (&target.mount, &target.path);
        let partial = RemotePartial::open(mount, path, (name, source), existing);
        let partial = target.reactor.block_on(partial)??;
        let file = partial.file();
        let len = match existing {
            Existing::Resume => file.opened().size.saturating_sub(BEHIND),
            _ => 0,
        };
        let writer = Some(file.writer(len));
        Ok(Self::There(Box::new(Writing { target, writer, len, partial })))
    }

    /// Bytes that are there already.
    fn len(&self) -> u64 {
        match self {
            Self::Output => 0,
            Self::Here(file) => file.len(),
            Self::There(writing) => writing.len,
        }
    }

    fn write(&mut self, bytes: List) -> Result<(), Failure> {
        match self {
            Self::Output => write(&mut io::stdout().lock(), &bytes),
            Self::Here(file) => {
                let mut to = file.file();
                bytes.segments().try_for_each(|piece| to.write_all(piece)).map_err(Failure::file(file.path()))
            }
            Self::There(writing) => {
                let Writing { target, writer: Some(writer), .. } = &mut **writing else {
                    return Ok(());
                };
                Ok(target.reactor.block_on(writer.write(bytes))??)
            }
        }
    }

    /// All bytes are given: makes them durable, and gives the file its name.
    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Output => io::stdout().flush().map_err(output::failed),
            Self::Here(file) => file.finish(),
            Self::There(mut writing) => writing.finish(),
        }
    }
}

impl Writing {
    fn finish(&mut self) -> Result<(), Failure> {
        let Self { target, writer, partial, .. } = self;
        let Some(writer) = writer.take() else { return Ok(()) };
        let finished = async {
            writer.finish().await?;
            partial.finish().await
        };
        Ok(target.reactor.block_on(finished)??)
    }
}
