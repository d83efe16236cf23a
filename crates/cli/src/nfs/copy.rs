//! `onego nfs cp`, `put` and `cat`: bytes of files, from one place to another.

use super::target::{Target, Url};
use crate::access::Access;
use crate::failure::Failure;
use onego::nfs::{File, FileType, Mount, SetAttributes};
use onego::{List, SegmentMut};
use onego_bench::progress::Progress;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub(super) const CP_EXAMPLES: &str = "\
Examples:
  onego nfs cp nfs://server/export/debian.img debian.img
  onego nfs cp debian.img nfs://server/export/images/
  onego nfs cp --resume nfs://one/export/big nfs://two/export/big

One of both is a URL at least. What is copied to a directory keeps its name. What is there is overwritten; with
--resume it is taken for the beginning of what is copied, and the rest is added.";

/// Bytes of one read of a local file.
const PIECE: usize = 1 << 20;

/// How far from the end of a file on a server an earlier copy may have left gaps: its last writes were under way together.
const BEHIND: u64 = 32 << 20;

/// What a path is called that means standard input or output.
const STANDARD: &str = "-";

/// A file here or on a server.
#[derive(Debug, Clone)]
enum Place {
    Here(PathBuf),
    There(Box<Url>),
}

impl FromStr for Place {
    type Err = onego::nfs::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains("://") {
            Ok(Self::There(Box::new(text.parse()?)))
        } else {
            Ok(Self::Here(text.into()))
        }
    }
}

impl Place {
    /// The last name on its path.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Here(path) => path.file_name()?.to_str(),
            Self::There(url) => url.path().trim_end_matches('/').rsplit('/').next(),
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct CpOptions {
    /// What to copy: a URL, or a file here ("-": standard input)
    #[arg(value_name = "FROM")]
    from: Place,
    /// Where to: a URL, or a file or directory here ("-": standard output)
    #[arg(value_name = "TO")]
    to: Place,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
pub(crate) struct PutOptions {
    /// The file here; "-": standard input
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Where to: a file or a directory on a server
    #[arg(value_name = "URL")]
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
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

#[derive(clap::Args)]
pub(crate) struct CatOptions {
    /// The files
    #[arg(value_name = "URL", required = true)]
    urls: Vec<Url>,
}

pub(super) fn cp(access: &Access, options: &CpOptions) -> Result<(), Failure> {
    if let (Place::Here(_), Place::Here(_)) = (&options.from, &options.to) {
        return Err(Failure::Usage("one of both has to be a URL: nfs://HOST/EXPORT/PATH".to_owned()));
    }
    copy(access, &options.from, &options.to, &options.how)
}

pub(super) fn put(access: &Access, options: &PutOptions) -> Result<(), Failure> {
    let (from, to) = (Place::Here(options.from.clone()), Place::There(Box::new(options.to.clone())));
    copy(access, &from, &to, &options.how)
}

pub(super) fn cat(access: &Access, options: &CatOptions) -> Result<(), Failure> {
    for url in &options.urls {
        let mut source = Source::there(access, url)?;
        let mut output = io::stdout().lock();
        while let Some(bytes) = source.next()? {
            write(&mut output, &bytes)?;
        }
        output.flush().map_err(Failure::io(OUTPUT))?;
    }
    Ok(())
}

fn copy(access: &Access, from: &Place, to: &Place, how: &How) -> Result<(), Failure> {
    let mut source = Source::open(access, from)?;
    let mut sink = Sink::open(access, to, from.name(), how)?;
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
    fn open(access: &Access, place: &Place) -> Result<Self, Failure> {
        match place {
            Place::There(url) => Self::there(access, url),
            Place::Here(path) if path == Path::new(STANDARD) => Ok(Self::Input),
            Place::Here(path) => {
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
            return Err(Failure::Usage(format!("{} is a directory", url.text())));
        }
        let reader = file.reader(0);
        Ok(Self::There(Box::new(Reading { target, file, reader })))
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
const OUTPUT: &str = "writing to standard output";

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
    bytes.segments().try_for_each(|piece| to.write_all(piece)).map_err(Failure::io(OUTPUT))
}

/// Where bytes go.
enum Sink {
    Output,
    Here { path: PathBuf, file: fs::File, len: u64 },
    There(Box<Writing>),
}

/// A file on a server that is written.
struct Writing {
    target: Target,
    writer: onego::nfs::Writer,
    /// Bytes that are there already.
    len: u64,
}

impl Sink {
    /// Opens a place for what has that name.
    fn open(access: &Access, place: &Place, name: Option<&str>, how: &How) -> Result<Self, Failure> {
        match place {
            Place::There(url) => Self::there(url.mount(access)?, name, how),
            Place::Here(path) if path == Path::new(STANDARD) => Ok(Self::Output),
            Place::Here(path) => {
                let path = if path.is_dir() { path.join(name.unwrap_or_default()) } else { path.clone() };
                let mut options = fs::OpenOptions::new();
                options.write(true).create(true).create_new(how.no_clobber).truncate(!how.resume);
                let mut file = options.open(&path).map_err(Failure::file(&path))?;
                let end = if how.resume { io::SeekFrom::End(0) } else { io::SeekFrom::Start(0) };
                let len = file.seek(end).map_err(Failure::file(&path))?;
                Ok(Self::Here { path, file, len })
            }
        }
    }

    fn there(mut target: Target, name: Option<&str>, how: &How) -> Result<Self, Failure> {
        let (mount, path) = (&target.mount, &target.path);
        let file = target.reactor.block_on(create(mount, path, name, how))??;
        let len = if how.resume { file.opened().size.saturating_sub(BEHIND) } else { 0 };
        let writer = file.writer(len);
        Ok(Self::There(Box::new(Writing { target, writer, len })))
    }

    /// Bytes that are there already.
    fn len(&self) -> u64 {
        match self {
            Self::Output => 0,
            Self::Here { len, .. } => *len,
            Self::There(writing) => writing.len,
        }
    }

    fn write(&mut self, bytes: List) -> Result<(), Failure> {
        match self {
            Self::Output => write(&mut io::stdout().lock(), &bytes),
            Self::Here { path, file, .. } => {
                bytes.segments().try_for_each(|piece| file.write_all(piece)).map_err(Failure::file(path))
            }
            Self::There(writing) => {
                let Writing { target, writer, .. } = &mut **writing;
                Ok(target.reactor.block_on(writer.write(bytes))??)
            }
        }
    }

    /// All bytes are given: makes them durable, on a server.
    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Output => io::stdout().flush().map_err(Failure::io(OUTPUT)),
            Self::Here { .. } => Ok(()),
            Self::There(writing) => {
                let Writing { mut target, writer, .. } = *writing;
                Ok(target.reactor.block_on(writer.finish())??)
            }
        }
    }
}

/// The file to write to: in the directory that the path leads to, or else the path itself.
async fn create(mount: &Mount, path: &str, name: Option<&str>, how: &How) -> Result<File, onego::nfs::Error> {
    let size = (!how.resume).then_some(0);
    let attributes = SetAttributes { mode: Some(0o644), size, ..SetAttributes::default() };
    let there = mount.stat(path).await;
    let path = match &there {
        Ok(found) if found.is_dir() => format!("{path}/{}", name.unwrap_or_default()),
        _ => path.to_owned(),
    };
    mount.create(&path, attributes, how.no_clobber).await
}
