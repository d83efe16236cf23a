//! `onego rbd export`.

use super::image::ImageArg;
use super::streams::export_image;
use super::transfer::{PIECE, STANDARD, WINDOW};
use crate::access::Access;
use crate::device::{EncryptionArgs, decrypted, open_image};
use crate::failure::Failure;
use crate::identity::SourceFacts;
use crate::output;
use crate::partial::{Existing, PartialFile};
use crate::partial_import::IncompleteArgs;
use crate::spec::SnapSpec;
use onego::block::copy::data_in;
use onego::ceph::{ImageRequest, Outcome, Reactor};
use onego::rbd::Image;
use onego::{SegmentMut, Wait};
use onego_bench::report::progress::Progress;
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The image, or a snapshot of it: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    #[arg(value_name = "IMAGE")]
    spec: SnapSpec,
    /// The pool, if the image's name has none [default: rbd]
    #[arg(short, long)]
    pool: Option<String>,
    /// The file, which must be new; "-" is standard output [default: called as the image]
    path: Option<PathBuf>,
    /// What is written: 1, the bytes of the image; 2, the image with its snapshots
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    export_format: u8,
    #[command(flatten)]
    encryption: EncryptionArgs,
    #[command(flatten)]
    incomplete: IncompleteArgs,
    /// Go on where an earlier export was interrupted; the image must not have changed since
    #[arg(long)]
    resume: bool,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

/// Bytes of a block that becomes a hole if it is zeros: what file systems keep as one.
const GRAIN: usize = 4096;

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    let arg = ImageArg { spec: options.spec.image.clone(), pool: options.pool.clone() };
    let (name, snapshot) = (arg.name(), options.spec.snapshot.as_deref());
    let path = options.path.clone().unwrap_or_else(|| PathBuf::from(name));
    if options.export_format == 2 {
        if snapshot.is_some() {
            return Err(Failure::Usage(
                "format 2 has all snapshots of the image: name the image alone".to_owned(),
            ));
        }
        if !options.encryption.specs()?.is_empty() {
            let why = "an export with snapshots is of an image as it lies there: leave --encryption-passphrase-file out";
            return Err(Failure::Usage(why.into()));
        }
        if options.resume {
            return Err(Failure::Usage(
                "an export with snapshots cannot be resumed: remove what is left of it".to_owned(),
            ));
        }
        return export_image(access, &arg, &path, options.incomplete, !options.no_progress);
    }
    let specs = options.encryption.specs()?;
    let (mut reactor, cluster) = access.connect()?;
    let image = reactor.block_on(async {
        let pool = arg.open_pool(&cluster).await?;
        options.incomplete.check_named(&pool, name).await?;
        if let Some(snapshot) = snapshot {
            return Ok(decrypted(Image::open_at(&pool, name, snapshot).await?, &specs).await?);
        }
        Ok::<_, Failure>(open_image(&pool, name, true, &specs).await?)
    })??;
    let exported = export(&mut reactor, &image, &path, options);
    let closed = reactor.block_on(image.close())?;
    exported?;
    Ok(closed?)
}

fn export(reactor: &mut Reactor, image: &Image, path: &Path, options: &Options) -> Result<(), Failure> {
    let mut sink = Sink::open(path, options.resume)?;
    if sink.len() > image.size() {
        return Err(Failure::Usage(format!(
            "the earlier export to {} has more bytes than the image: it is of another one",
            path.display()
        )));
    }
    let first = if options.resume { sink.reliable() / PIECE } else { 0 };
    sink.compare(reactor, image, first * PIECE, !options.no_progress)?;
    sink.begin(first * PIECE)?;
    let progress = Progress::of_bytes("Exporting", Some(image.size()), !options.no_progress);
    let copied = copy(reactor, image, &mut sink, first, &progress);
    progress.finish();
    match copied {
        Ok(()) => sink.finish(image.size()),
        Err(failure) => {
            sink.abandon();
            Err(failure)
        }
    }
}

/// A piece of the image on its way.
enum Piece {
    Reading,
    Read(SegmentMut),
}

/// Reads ahead from a piece on, and hands on what was read in order.
fn copy(
    reactor: &mut Reactor,
    image: &Image,
    sink: &mut Sink,
    first: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let size = image.size();
    let pieces = size.div_ceil(PIECE);
    // Pieces from number `written` on, the oldest first.
    let mut window = std::collections::VecDeque::with_capacity(WINDOW);
    let (mut written, mut spare) = (first, Vec::new());
    while written < pieces {
        while window.len() < WINDOW && written + (window.len() as u64) < pieces && reactor.has_room() {
            let number = written + window.len() as u64;
            let offset = number * PIECE;
            let buffer = buffer((size - offset).min(PIECE) as usize, &mut spare);
            reactor.submit(image, ImageRequest::Read { offset, buffer }, number)?;
            window.push_back(Piece::Reading);
        }
        match reactor.completion() {
            Some(completed) => {
                let Outcome::Buffer(buffer) = completed.result? else { continue };
                window[(completed.tag - written) as usize] = Piece::Read(buffer);
            }
            None => reactor.turn(Wait::Forever)?,
        }
        while let Some(Piece::Read(buffer)) = window.pop_front_if(|piece| matches!(piece, Piece::Read(_))) {
            sink.write(written * PIECE, &buffer)?;
            progress.at(written * PIECE + buffer.len() as u64);
            spare.push(buffer);
            written += 1;
            sink.written((written * PIECE).min(size))?;
        }
    }
    Ok(())
}

fn buffer(length: usize, spare: &mut Vec<SegmentMut>) -> SegmentMut {
    match spare.pop() {
        Some(mut buffer) => {
            buffer.truncate(length);
            buffer
        }
        None => SegmentMut::zeroed(length),
    }
}

/// Where the image goes.
enum Sink {
    File(Box<PartialFile>),
    Output,
}

impl Sink {
    fn open(path: &Path, resume: bool) -> Result<Self, Failure> {
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
        PartialFile::open(path, existing, &[]).map(|file| Self::File(Box::new(file)))
    }

    /// Bytes that an earlier export has left; they end where its last data did.
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.len(),
            Self::Output => 0,
        }
    }

    /// Length of the part that survived a power cut.
    fn reliable(&self) -> u64 {
        match self {
            Self::File(file) => file.reliable(),
            Self::Output => 0,
        }
    }

    /// Fails unless the first bytes of an earlier export are those of the image.
    fn compare(
        &self,
        reactor: &mut Reactor,
        image: &Image,
        bytes: u64,
        shows_progress: bool,
    ) -> Result<(), Failure> {
        let Self::File(file) = self else { return Ok(()) };
        let progress = Progress::of_bytes("Comparing", Some(bytes), shows_progress && bytes > 0);
        let mut earlier = vec![0; PIECE as usize];
        for at in (0..bytes).step_by(PIECE as usize) {
            progress.at(at);
            file.file().read_exact_at(&mut earlier, at).map_err(Failure::file(file.place()))?;
            if reactor.block_on(image.read(at, PIECE))??.to_vec() != earlier {
                return Err(Failure::Usage(format!(
                    "{} differs from the image at byte {at} or after: the image changed since; remove the file and export again",
                    file.place().display()
                )));
            }
        }
        progress.finish();
        Ok(())
    }

    /// Keeps the first bytes of an earlier export.
    fn begin(&mut self, keep: u64) -> Result<(), Failure> {
        match self {
            Self::File(file) => file.begin(None, keep),
            Self::Output => Ok(()),
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::File(file) => data_in([bytes], GRAIN)
                .into_iter()
                .try_for_each(|part| {
                    file.file().write_all_at(&bytes[part.clone()], offset + part.start as u64)
                })
                .map_err(Failure::file(file.path())),
            Self::Output => io::stdout().write_all(bytes).map_err(output::failed),
        }
    }

    /// All bytes before `done` are written.
    fn written(&mut self, done: u64) -> Result<(), Failure> {
        match self {
            Self::File(file) => file.written(done),
            Self::Output => Ok(()),
        }
    }

    /// The export ends early.
    fn abandon(self) {
        if let Self::File(file) = self {
            file.abandon();
        }
    }

    /// All of an image of `size` bytes is written.
    fn finish(self, size: u64) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                file.file().set_len(size).map_err(Failure::file(file.path()))?;
                file.finish(&SourceFacts::default())
            }
            Self::Output => io::stdout().flush().map_err(output::failed),
        }
    }
}
