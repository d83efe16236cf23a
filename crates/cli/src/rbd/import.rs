//! `onego rbd import`.

use super::transfer::{PIECE, STANDARD, WINDOW, data_in};
use super::{ImageArg, Shape};
use crate::access::Access;
use crate::failure::Failure;
use crate::size;
use crate::spec::ImageSpec;
use onego::rados::Pool;
use onego::rbd::{self, Image};
use onego::{ImageRequest, Reactor, Segment, SegmentMut, Wait};
use onego_bench::progress::Progress;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The file; "-" is standard input
    path: PathBuf,
    /// The image [default: called as the file]
    #[arg(value_name = "IMAGE")]
    spec: Option<ImageSpec>,
    /// The pool, if the image's name has none [default: rbd]
    #[arg(short, long)]
    pool: Option<String>,
    /// Blocks of so many bytes that are zeros are not written
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = sparse_size)]
    sparse_size: u64,
    #[command(flatten)]
    shape: Shape,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

fn sparse_size(text: &str) -> Result<u64, String> {
    match size::bytes(text)? {
        size if size.is_power_of_two() && (512..=PIECE).contains(&size) => Ok(size),
        _ => Err(format!("{text:?} is no power of two from 512 to 1M")),
    }
}

impl Options {
    fn image(&self) -> Result<ImageArg, Failure> {
        let called_as_the_file = || {
            let name = self.path.file_name().filter(|_| !is_standard(&self.path))?;
            name.to_str()?.parse().ok()
        };
        match self.spec.clone().or_else(called_as_the_file) {
            Some(spec) => Ok(ImageArg { spec, pool: self.pool.clone() }),
            None => Err(Failure::Usage(format!(
                "what is imported from {} needs a name: write it behind",
                self.path.display()
            ))),
        }
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new(STANDARD)
}

/// How much an image grows at a time whose size is not known before.
const GROWTH: u64 = 1 << 30;

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    let image = options.image()?;
    options.shape.layout()?;
    let source = Source::open(&options.path, options.sparse_size)?;
    let (mut reactor, cluster) = access.connect()?;
    let pool = reactor.block_on(image.open_pool(&cluster))??;
    let size = source.size().unwrap_or(GROWTH);
    reactor.block_on(options.shape.create(&pool, image.name(), size))??;
    let progress = Progress::of_bytes("Importing", source.size(), !options.no_progress);
    let copied = Target::open(&mut reactor, &pool, image.name())
        .and_then(|target| copy(source, target, options.sparse_size as usize, &progress));
    progress.finish();
    if copied.is_err() {
        // Half an image would be taken for a whole one. The first error is the one to tell.
        let _ = reactor.block_on(rbd::remove(&pool, image.name(), |_, _| ()));
    }
    copied
}

/// Writes all data of the source to the image, and closes it.
fn copy(
    mut source: Source,
    mut target: Target<'_>,
    grain: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    let written = write_all(&mut source, &mut target, grain, progress);
    // An image that is not closed counts as used for a while, and could not be removed.
    let closed = target.close(source.end());
    written.and(closed)
}

fn write_all(
    source: &mut Source,
    target: &mut Target<'_>,
    grain: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    while let Some((offset, bytes)) = source.next()? {
        let bytes = bytes.freeze();
        target.make_room(offset + bytes.len() as u64)?;
        for part in data_in(&bytes, grain) {
            target.write(offset + part.start as u64, bytes.slice(part))?;
        }
        progress.at(offset + bytes.len() as u64);
    }
    target.drain()
}

/// The image that is being filled.
struct Target<'a> {
    reactor: &'a mut Reactor,
    pool: &'a Pool,
    name: &'a str,
    image: Image,
    in_flight: usize,
}

impl<'a> Target<'a> {
    fn open(reactor: &'a mut Reactor, pool: &'a Pool, name: &'a str) -> Result<Self, Failure> {
        let image = reactor.block_on(Image::open(pool, name))??;
        Ok(Self { reactor, pool, name, image, in_flight: 0 })
    }

    /// Makes the image larger if it ends before `end`.
    fn make_room(&mut self, end: u64) -> Result<(), Failure> {
        if end <= self.image.size() {
            return Ok(());
        }
        self.drain()?;
        let (pool, name, size) = (self.pool, self.name, end.next_multiple_of(GROWTH));
        self.image = self.reactor.block_on(async {
            rbd::resize(pool, name, size, |_, _| ()).await?;
            Image::open(pool, name).await
        })??;
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Segment) -> Result<(), Failure> {
        while self.in_flight >= WINDOW || !self.reactor.has_room() {
            self.turn()?;
        }
        self.reactor.submit(&self.image, ImageRequest::Write { offset, data: data.into() }, offset)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Takes a completion, waiting for it if need be.
    fn turn(&mut self) -> Result<(), Failure> {
        match self.reactor.completion() {
            Some(completed) => {
                self.in_flight -= 1;
                completed.result?;
            }
            None => self.reactor.turn(Wait::Forever)?,
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Failure> {
        while self.in_flight > 0 {
            self.turn()?;
        }
        Ok(())
    }

    /// Closes the image, which is to have `size` bytes.
    fn close(self, size: u64) -> Result<(), Failure> {
        let now = self.image.size();
        Ok(self.reactor.block_on(async {
            self.image.close().await?;
            if size == now { Ok(()) } else { rbd::resize(self.pool, self.name, size, |_, _| ()).await }
        })??)
    }
}

/// What is imported.
enum Source {
    /// Something of a known size, of which any part can be read.
    File { path: PathBuf, file: File, size: u64, at: u64, grain: u64 },
    /// Something that is read from its begin to its end, wherever that is.
    Stream { path: PathBuf, input: Box<dyn Read>, at: u64 },
}

impl Source {
    fn open(path: &Path, grain: u64) -> Result<Self, Failure> {
        if is_standard(path) {
            let path = PathBuf::from("standard input");
            return Ok(Self::Stream { path, input: Box::new(io::stdin().lock()), at: 0 });
        }
        let fail = || Failure::file(path);
        let file = File::open(path).map_err(fail())?;
        let kind = file.metadata().map_err(fail())?.file_type();
        if kind.is_dir() {
            return Err(fail()(io::ErrorKind::IsADirectory.into()));
        }
        let path = path.to_owned();
        match rustix::fs::seek(&file, SeekFrom::End(0)) {
            Ok(size) => Ok(Self::File { path, file, size, at: 0, grain }),
            Err(_) => Ok(Self::Stream { path, input: Box::new(file), at: 0 }),
        }
    }

    /// Bytes in all, if that is known.
    fn size(&self) -> Option<u64> {
        match self {
            Self::File { size, .. } => Some(*size),
            Self::Stream { .. } => None,
        }
    }

    /// Where it ends, once all is read.
    fn end(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            Self::Stream { at, .. } => *at,
        }
    }

    /// The next piece that may hold anything but zeros, and where it begins.
    fn next(&mut self) -> Result<Option<(u64, SegmentMut)>, Failure> {
        match self {
            Self::File { path, file, size, at, grain } => {
                let Some((start, end)) =
                    next_extent(file, *at, *size, *grain).map_err(Failure::file(path))?
                else {
                    return Ok(None);
                };
                let mut bytes = SegmentMut::zeroed((end - start) as usize);
                file.read_exact_at(&mut bytes, start).map_err(Failure::file(path))?;
                *at = end;
                Ok(Some((start, bytes)))
            }
            Self::Stream { path, input, at } => {
                let mut bytes = SegmentMut::zeroed(PIECE as usize);
                let n = read_up_to(input.as_mut(), &mut bytes).map_err(Failure::file(path))?;
                bytes.truncate(n);
                *at += n as u64;
                Ok((n > 0).then(|| (*at - n as u64, bytes)))
            }
        }
    }
}

/// The next part of a file from `at` on that is no hole: whole blocks of `grain`, within one piece.
fn next_extent(file: &File, at: u64, size: u64, grain: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start / grain * grain,
        Err(Errno::NXIO) => return Ok(None),
        // What cannot tell its holes has none.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
        Err(error) => return Err(error.into()),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size);
    let end = hole.next_multiple_of(grain).min((start / PIECE + 1) * PIECE).min(size);
    Ok((start < end).then_some((start, end)))
}

/// Reads until the buffer is full or there is no more.
fn read_up_to(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(source: &mut Source) -> Vec<(u64, Vec<u8>)> {
        std::iter::from_fn(|| source.next().unwrap()).map(|(at, bytes)| (at, bytes.to_vec())).collect()
    }

    #[test]
    fn holes_of_a_file_are_passed_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10 << 20).unwrap();
        file.as_file().write_all_at(&[1; 100], (3 << 20) + 8192).unwrap();
        file.as_file().write_all_at(&[2; 100], (10 << 20) - 100).unwrap();
        let mut source = Source::open(file.path(), 4096).unwrap();
        assert_eq!(source.size(), Some(10 << 20));
        let pieces = pieces(&mut source);
        let read: u64 = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        assert!(read <= 1 << 20, "{read} bytes were read");
        let mut content = vec![0; 10 << 20];
        for (at, bytes) in &pieces {
            assert_eq!(at % 4096, 0);
            content[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        assert!(content == std::fs::read(file.path()).unwrap());
    }

    #[test]
    fn a_stream_comes_in_whole_pieces() {
        let content: Vec<u8> = (0..PIECE as u32 + 1000).map(|i| i as u8).collect();
        let input = Box::new(io::Cursor::new(content.clone()).chain(io::empty()));
        let mut source = Source::Stream { path: "test".into(), input, at: 0 };
        let pieces = pieces(&mut source);
        assert_eq!(
            pieces.iter().map(|(at, bytes)| (*at, bytes.len())).collect::<Vec<_>>(),
            [(0, 1 << 20), (1 << 20, 1000)]
        );
        assert!(pieces.into_iter().flat_map(|(_, bytes)| bytes).eq(content));
        assert_eq!(source.end(), PIECE + 1000);
    }
}
