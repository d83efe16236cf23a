//! `onego rbd export`.

use super::ImageArg;
use super::transfer::{PIECE, STANDARD, WINDOW, data_in};
use crate::access::Access;
use crate::failure::Failure;
use onego::rbd::Image;
use onego::{ImageRequest, Outcome, Reactor, SegmentMut, Wait};
use onego_bench::progress::Progress;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    image: ImageArg,
    /// The file, which must be new; "-" is standard output [default: called as the image]
    path: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

/// Blocks of so many bytes that are zeros become holes: what file systems keep as one.
const GRAIN: usize = 4096;

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    let name = options.image.name();
    let path = options.path.clone().unwrap_or_else(|| PathBuf::from(name));
    let (mut reactor, cluster) = access.connect()?;
    let image = reactor
        .block_on(async { Image::open_read_only(&options.image.open_pool(&cluster).await?, name).await })??;
    let exported = export(&mut reactor, &image, &path, !options.no_progress);
    let closed = reactor.block_on(image.close())?;
    exported?;
    Ok(closed?)
}

fn export(reactor: &mut Reactor, image: &Image, path: &Path, shown: bool) -> Result<(), Failure> {
    let sink = Sink::open(path, image.size())?;
    let progress = Progress::of_bytes("Exporting", Some(image.size()), shown);
    let copied = copy(reactor, image, &sink, &progress);
    progress.finish();
    if copied.is_err() {
        sink.discard();
    }
    copied
}

/// A piece of the image on its way.
enum Piece {
    Reading,
    Read(SegmentMut),
}

/// Reads ahead, and hands on what was read in order.
fn copy(reactor: &mut Reactor, image: &Image, sink: &Sink, progress: &Progress) -> Result<(), Failure> {
    let size = image.size();
    let pieces = size.div_ceil(PIECE);
    // Pieces from number `written` on, the oldest first.
    let mut window = std::collections::VecDeque::with_capacity(WINDOW);
    let (mut written, mut spare) = (0, Vec::new());
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
        }
    }
    sink.flush()
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
    File { path: PathBuf, file: File },
    Output,
}

impl Sink {
    fn open(path: &Path, size: u64) -> Result<Self, Failure> {
        if path == Path::new(STANDARD) {
            return Ok(Self::Output);
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(Failure::file(path))?;
        let sink = Self::File { path: path.to_owned(), file };
        match &sink {
            Self::File { file, .. } => match file.set_len(size) {
                Ok(()) => Ok(sink),
                Err(error) => {
                    sink.discard();
                    Err(Failure::file(path)(error))
                }
            },
            Self::Output => Ok(sink),
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::File { path, file } => data_in(bytes, GRAIN)
                .into_iter()
                .try_for_each(|part| file.write_all_at(&bytes[part.clone()], offset + part.start as u64))
                .map_err(Failure::file(path)),
            Self::Output => io::stdout().write_all(bytes).map_err(Failure::io("writing to standard output")),
        }
    }

    fn flush(&self) -> Result<(), Failure> {
        match self {
            Self::File { .. } => Ok(()),
            Self::Output => io::stdout().flush().map_err(Failure::io("writing to standard output")),
        }
    }

    /// Removes half a file, which would be taken for a whole one.
    fn discard(self) {
        if let Self::File { path, .. } = self {
            // The error that led here is the one to tell.
            let _ = fs::remove_file(path);
        }
    }
}
