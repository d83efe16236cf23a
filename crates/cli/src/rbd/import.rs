//! `onego rbd import`.

use super::image::ImageArg;
use super::shape::{FormatOption, Shape};
use super::streams::{StreamedImage, import_image};
use super::transfer::{PIECE, STANDARD, WINDOW, sparse_size};
use crate::access::Access;
use crate::device::{FileArgs, refusal};
use crate::failure::Failure;
use crate::identity::{SETTLED, SourceFacts};
use crate::interrupt::{self, Unfinished};
use crate::partial_import::{MARK_EVERY, PartialImport};
use crate::spec::ImageSpec;
use onego::block::copy::{CopyError, data_in};
use onego::ceph::{ImageRequest, Reactor};
use onego::rados::Pool;
use onego::rbd::{self, Image};
use onego::{ErrorKind, Segment, SegmentMut, Wait};
use onego_bench::report::progress::Progress;
use onego_disk::{Container, FileFormat};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Bytes of a block that is not written if it is zeros
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = sparse_size)]
    sparse_size: u64,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    format: FormatOption,
    /// What the file is: 1, the bytes of an image; 2, an image with its snapshots
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    export_format: u8,
    /// Go on where an earlier import of the same bytes was interrupted
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    files: FileArgs,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
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
    if options.export_format == 2 {
        if options.format.is_old() {
            let reason = "an image with its snapshots is made in format 2 alone: leave --image-format out";
            return Err(Failure::Usage(reason.into()));
        }
        return import_image(
            access,
            &StreamedImage {
                path: &options.path,
                image: &image,
                shape: &options.shape,
                sparse_size: options.sparse_size,
                resume: options.resume,
                shows_progress: !options.no_progress,
            },
        );
    }
    let mut source = Source::open(&options.path, options.sparse_size, options.files)?;
    let (mut reactor, cluster) = access.connect()?;
    let pool = reactor.block_on(interrupt::unless(image.open_pool(&cluster)))???;
    let shown = format!("image {}", image.spec);
    let left = Arc::new(Mutex::new(String::new()));
    let _unfinished = Unfinished::winding_down({
        let (shown, left) = (shown.clone(), Arc::clone(&left));
        move || Some(what_is_left(&shown, &left)).filter(|left| !left.is_empty())
    });
    let mut mark = PartialImport::new(source.size(), source.record().map_err(Failure::file(&options.path))?);
    let earlier = match options.resume {
        true => {
            let earlier = PartialImport::earlier(&pool, image.name(), &shown, mark.of);
            reactor.block_on(interrupt::unless(earlier))???
        }
        false => None,
    };
    let is_begun = earlier.is_some();
    if let Some(earlier) = earlier {
        mark.done = earlier.done;
        if !source.resume(&earlier).map_err(Failure::file(&options.path))? {
            let progress = Progress::of_bytes("Comparing", Some(mark.done), !options.no_progress);
            compare(&mut reactor, &pool, image.name(), &mut source, mark.done, &progress)?;
            progress.finish();
        }
    }
    // Where there is none, the image may be there as soon as its creation has begun.
    note(&left, &mark);
    if !is_begun {
        let shape = options.shape.clone().in_format(&options.format, &access.config()?.image_defaults)?;
        create(&mut reactor, &pool, image.name(), &shape, &mark).inspect_err(|failure| {
            if may_go_on(failure) {
                interrupt::say(&what_is_left(&shown, &left));
            }
        })?;
    }
    let progress = Progress::of_bytes("Importing", source.size(), !options.no_progress);
    let target = ImportTarget::open(&mut reactor, &pool, image.name(), mark, &left);
    let grain = if source.is_dense() { 0 } else { options.sparse_size };
    let copied = target.and_then(|target| copy(source, target, grain as usize, &progress));
    progress.finish();
    match &copied {
        Err(failure) if is_begun || may_go_on(failure) => interrupt::say(&what_is_left(&shown, &left)),
        // Half an image that was not there before would be in the way. The first error is the one to tell.
        Err(_) => {
            let removed = rbd::remove(&pool, image.name(), |_, _| interrupt::progress());
            let _ = reactor.block_on(interrupt::unless(removed));
        }
        Ok(()) => {}
    }
    copied
}

/// Makes an image that says how far its import is.
fn create(
    reactor: &mut Reactor,
    pool: &Pool,
    name: &str,
    shape: &Shape,
    mark: &PartialImport,
) -> Result<(), Failure> {
    let size = mark.of.unwrap_or(GROWTH);
    reactor.block_on(interrupt::unless(shape.create(pool, name, size, mark.metadata())))??
}

/// Is this the end of an import that `--resume` can continue: once there is room, or the cluster answers again?
fn may_go_on(failure: &Failure) -> bool {
    match failure {
        Failure::Interrupted => true,
        Failure::Client(error) => error.kind() == ErrorKind::NoSpace || error.is_retryable(),
        _ => false,
    }
}

/// What is said of an import that ends early. Empty: there is no image yet.
fn what_is_left(shown: &str, left: &Mutex<String>) -> String {
    let left = left.lock().unwrap_or_else(PoisonError::into_inner);
    if left.is_empty() {
        return String::new();
    }
    format!(
        "{shown} is not whole: {left}; \"onego rbd import --resume\" goes on, \"onego rbd rm\" removes it"
    )
}

/// Remembers how far an import is, for the message at an early end.
fn note(left: &Mutex<String>, mark: &PartialImport) {
    *left.lock().unwrap_or_else(PoisonError::into_inner) = mark.to_string();
}

/// Writes all data of the source to the image, and closes it.
fn copy(
    mut source: Source,
    mut target: ImportTarget<'_>,
    grain: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    match write_all(&mut source, &mut target, grain, progress) {
        Ok(()) => target.finish(source.end()),
        Err(error) => {
            // An image that is not closed counts as used for a while, and could not be removed.
            let _ = target.abandon();
            Err(error)
        }
    }
}

fn write_all(
    source: &mut Source,
    target: &mut ImportTarget<'_>,
    grain: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    while let Some((offset, bytes)) = source.next()? {
        interrupt::check()?;
        let bytes = bytes.freeze();
        let end = offset + bytes.len() as u64;
        target.make_room(end)?;
        // Without a grain, zeros are written as well.
        let parts =
            if grain == 0 { std::iter::once(0..bytes.len()).collect() } else { data_in([&bytes[..]], grain) };
        for part in parts {
            target.write(offset + part.start as u64, bytes.slice(part))?;
        }
        target.submitted = end;
        target.mark()?;
        progress.at(end);
    }
    target.drain()
}

/// The image that is being filled.
struct ImportTarget<'a> {
    reactor: &'a mut Reactor,
    pool: &'a Pool,
    name: &'a str,
    image: Image,
    /// Where the writes begin that are under way.
    in_flight: BTreeSet<u64>,
    /// Everything before this byte is written, or is being written.
    submitted: u64,
    marked: PartialImport,
    left: &'a Mutex<String>,
}

impl<'a> ImportTarget<'a> {
    fn open(
        reactor: &'a mut Reactor,
        pool: &'a Pool,
        name: &'a str,
        marked: PartialImport,
        left: &'a Mutex<String>,
    ) -> Result<Self, Failure> {
        let image = reactor.block_on(interrupt::unless(Image::open(pool, name)))???;
        let (in_flight, submitted) = (BTreeSet::new(), marked.done);
        Ok(Self { reactor, pool, name, image, in_flight, submitted, marked, left })
    }

    /// Makes the image larger if it ends before `end`.
    fn make_room(&mut self, end: u64) -> Result<(), Failure> {
        if end <= self.image.size() {
            return Ok(());
        }
        self.drain()?;
        let (pool, name, size) = (self.pool, self.name, end.next_multiple_of(GROWTH));
        let grown = async {
            rbd::resize(pool, name, size, |_, _| ()).await?;
            Image::open(pool, name).await
        };
        self.image = self.reactor.block_on(interrupt::unless(grown))???;
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Segment) -> Result<(), Failure> {
        while self.in_flight.len() >= WINDOW || !self.reactor.has_room() {
            self.turn()?;
        }
        self.reactor.submit(&self.image, ImageRequest::Write { offset, data: data.into() }, offset)?;
        self.in_flight.insert(offset);
        Ok(())
    }

    /// Takes a completion, waiting for it if need be.
    fn turn(&mut self) -> Result<(), Failure> {
        match self.reactor.completion() {
            Some(completed) => {
                completed.result?;
                self.in_flight.remove(&completed.tag);
            }
            None => {
                // From here on a signal wakes this thread.
                self.reactor.block_on(interrupt::unless(std::future::ready(())))??;
                self.reactor.turn(Wait::Forever)?;
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Failure> {
        while !self.in_flight.is_empty() {
            self.turn()?;
        }
        Ok(())
    }

    /// How far the import is.
    fn done(&self) -> PartialImport {
        let done = self.in_flight.first().copied().unwrap_or(self.submitted);
        PartialImport { done, ..self.marked.clone() }
    }

    /// Tells the image how far the import is, now and then.
    fn mark(&mut self) -> Result<(), Failure> {
        let now = self.done();
        if now.done < self.marked.done + MARK_EVERY {
            return Ok(());
        }
        let told = now.tell(self.pool, self.image.info());
        self.reactor.block_on(interrupt::unless(told))???;
        note(self.left, &now);
        self.marked = now;
        Ok(())
    }

    /// All is written: the image gets its size, is whole, and is closed.
    fn finish(self, size: u64) -> Result<(), Failure> {
        let Self { reactor, pool, name, image, .. } = self;
        let now = image.size();
        let finished = async {
            if size != now {
                rbd::resize(pool, name, size, |_, _| interrupt::progress()).await?;
            }
            PartialImport::end(pool, image.info()).await?;
            image.close().await
        };
        reactor.block_on(interrupt::unless(finished))??.map_err(Failure::from)
    }

    /// The import ends early: the image says how far it came, and is closed.
    fn abandon(self) -> Result<(), Failure> {
        let now = self.done();
        let Self { reactor, pool, image, left, .. } = self;
        // A full cluster must not keep it waiting, and what it is not told is not needed: an older mark is as true.
        let pool = pool.with_full_try();
        let told = async {
            let marked = now.tell(&pool, image.info()).await;
            if marked.is_ok() {
                note(left, &now);
            }
            interrupt::progress();
            image.close().await
        };
        Ok(reactor.block_on(told)??)
    }
}

/// Reads the first `done` bytes of a stream, and fails unless the image has them.
fn compare(
    reactor: &mut Reactor,
    pool: &Pool,
    name: &str,
    source: &mut Source,
    done: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let image = reactor.block_on(interrupt::unless(Image::open_read_only(pool, name)))???;
    let mut at = 0;
    while at < done {
        // Whole pieces were imported.
        let found = source.next()?.map(|(_, bytes)| bytes.freeze());
        let length = found.as_ref().map_or(0, |bytes| bytes.len());
        let earlier = match length {
            0 => None,
            _ => Some(reactor.block_on(interrupt::unless(image.read(at, length as u64)))???),
        };
        if found.map(|bytes| bytes.to_vec()) != earlier.map(|bytes| bytes.to_vec()) || length == 0 {
            return Err(Failure::Usage(format!(
                "image {name} differs from the input at byte {at} or after: the input is another one; remove the image to \
                 begin anew"
            )));
        }
        at += length as u64;
        progress.at(at);
    }
    Ok(reactor.block_on(image.close())??)
}

/// What is imported.
enum Source {
    /// Something of a known size, of which any part can be read.
    File {
        path: PathBuf,
        file: File,
        /// The disk in a qcow2 file.
        container: Option<Container>,
        size: u64,
        at: u64,
        grain: u64,
        is_dense: bool,
    },
    /// Something that is read from its begin to its end, wherever that is.
    Stream { path: PathBuf, input: Box<dyn Read>, files: FileArgs, at: u64, is_dense: bool },
}

impl Source {
    fn open(path: &Path, grain: u64, files: FileArgs) -> Result<Self, Failure> {
        if is_standard(path) {
            let (path, input) = (PathBuf::from("standard input"), Box::new(io::stdin().lock()));
            return Ok(Self::Stream { path, input, files, at: 0, is_dense: false });
        }
        let fail = || Failure::file(path);
        let file = File::open(path).map_err(fail())?;
        let kind = file.metadata().map_err(fail())?.file_type();
        if kind.is_dir() {
            return Err(fail()(io::ErrorKind::IsADirectory.into()));
        }
        let Ok(size) = rustix::fs::seek(&file, SeekFrom::End(0)) else {
            let path = path.to_owned();
            return Ok(Self::Stream { path, input: Box::new(file), files, at: 0, is_dense: false });
        };
        let format = if files.raw || !kind.is_file() { Ok(None) } else { FileFormat::detect(&file) };
        let container = match format.map_err(fail())? {
            None => None,
            Some(FileFormat::Qcow2) => {
                Some(Container::open(file.try_clone().map_err(fail())?, path, files.backing())?)
            }
            Some(format) => return Err(refusal(path.display(), format)),
        };
        let size = container.as_ref().map_or(size, Container::size);
        Ok(Self::File { path: path.to_owned(), file, container, size, at: 0, grain, is_dense: false })
    }

    /// Identity of a file, to tell later whether it changed.
    fn record(&self) -> io::Result<Option<String>> {
        match self {
            Self::File { file, .. } => Ok(SourceFacts::here(&file.metadata()?, None).record(SETTLED)),
            Self::Stream { .. } => Ok(None),
        }
    }

    /// Continues after an earlier import. Returns false unless that was of this very file: then the source begins at its
    /// first byte, and gives all bytes, since the earlier one may have written others where this one has zeros.
    fn resume(&mut self, earlier: &PartialImport) -> io::Result<bool> {
        match self {
            Self::File { file, at, is_dense, .. } => {
                let text = SourceFacts::here(&file.metadata()?, None).text();
                *is_dense = earlier.source.is_none() || earlier.source != text;
                *at = if *is_dense { 0 } else { earlier.done };
                Ok(!*is_dense)
            }
            Self::Stream { is_dense, .. } => {
                *is_dense = true;
                Ok(false)
            }
        }
    }

    /// Returns whether zeros are to be written as well.
    fn is_dense(&self) -> bool {
        match self {
            Self::File { is_dense, .. } | Self::Stream { is_dense, .. } => *is_dense,
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
            Self::File { path, file, container, size, at, grain, is_dense } => {
                let extent = match (*is_dense, &container) {
                    (true, _) => Ok(Some((*at, (*size).min(*at + PIECE))).filter(|(at, end)| at < end)),
                    (false, Some(container)) => container.next_data(*at, *size).map(|data| {
                        data.map(|(start, end)| whole_blocks(start / *grain * *grain, end, *size, *grain))
                    }),
                    (false, None) => next_extent(file, *at, *size, *grain),
                };
                let Some((start, end)) = extent.map_err(Failure::file(path))? else {
                    // After the end of a file that became shorter there seems to be a hole.
                    let about = file.metadata().map_err(Failure::file(path))?;
                    return match container.is_none() && about.is_file() && about.len() < *size {
                        true => Err(CopyError::Resized { before: *size, now: about.len() }.into()),
                        false => Ok(None),
                    };
                };
                let mut bytes = SegmentMut::zeroed((end - start) as usize);
                match container {
                    Some(container) => container.read(start, &mut bytes),
                    None => file.read_exact_at(&mut bytes, start),
                }
                .map_err(Failure::file(path))?;
                *at = end;
                Ok(Some((start, bytes)))
            }
            Self::Stream { path, input, files, at, .. } => {
                let mut bytes = SegmentMut::zeroed(PIECE as usize);
                let n = read_up_to(input.as_mut(), &mut bytes).map_err(Failure::file(path))?;
                bytes.truncate(n);
                if *at == 0
                    && !files.raw
                    && let Some(format) = FileFormat::of_bytes(&bytes, &[])
                {
                    return Err(refusal(path.display(), format));
                }
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
    Ok(Some(whole_blocks(start, hole, size, grain)).filter(|(start, end)| start < end))
}

/// Rounds the end of data up to whole blocks of `grain`, within one piece.
fn whole_blocks(start: u64, end: u64, size: u64, grain: u64) -> (u64, u64) {
    (start, end.next_multiple_of(grain).min((start / PIECE + 1) * PIECE).min(size))
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
        let mut source = Source::open(file.path(), 4096, FileArgs::default()).unwrap();
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
    fn a_file_that_became_shorter_does_not_end_in_zeros() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10 << 20).unwrap();
        let mut source = Source::open(file.path(), 4096, FileArgs::default()).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let failed = source.next().unwrap_err().to_string();
        assert!(failed.contains("10485760") && failed.contains("1048576"), "{failed}");
    }

    #[test]
    fn a_stream_comes_in_whole_pieces() {
        let content: Vec<u8> = (0..PIECE as u32 + 1000).map(|i| i as u8).collect();
        let input = Box::new(io::Cursor::new(content.clone()).chain(io::empty()));
        let mut source =
            Source::Stream { path: "test".into(), input, files: FileArgs::RAW, at: 0, is_dense: false };
        let pieces = pieces(&mut source);
        assert_eq!(
            pieces.iter().map(|(at, bytes)| (*at, bytes.len())).collect::<Vec<_>>(),
            [(0, 1 << 20), (1 << 20, 1000)]
        );
        assert!(pieces.into_iter().flat_map(|(_, bytes)| bytes).eq(content));
        assert_eq!(source.end(), PIECE + 1000);
    }
}
