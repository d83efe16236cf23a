//! The bytes of objects, to and from files and streams: several requests in flight, and no more memory than they take.

use super::scope::{Scope, number};
use super::window::Window;
use crate::ceph::errno::{because, failed, sentence};
use crate::failure::Failure;
use crate::names;
use crate::output;
use onego::SegmentMut;
use onego::ceph::Error;
use onego::rados::Pool;
use onego_bench::report::progress::Progress;
use std::fs::File;
use std::io::{self, Read, Write};

/// Requests in flight.
const DEPTH: usize = 8;

/// The name of standard input and output.
const STANDARD: &str = "-";

#[derive(clap::Args)]
pub(super) struct GetOptions {
    /// The object
    object: String,
    /// The file; "-" is standard output
    file: String,
}

#[derive(clap::Args)]
pub(super) struct PutOptions {
    /// The object
    object: String,
    /// The file; "-" is standard input
    file: String,
    /// Write from this byte on, and leave the others as they are
    #[arg(long, value_name = "OFFSET")]
    offset: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct AppendOptions {
    /// The object
    object: String,
    /// The file; "-" is standard input
    file: String,
}

/// The file is made before the object is asked for, as `rados` does.
pub(super) async fn get(pool: &Pool, scope: &Scope, options: &GetOptions) -> Result<(), Failure> {
    let object = &options.object;
    let what = format!("error getting {}/{object}", pool.name());
    let file = match options.file == STANDARD {
        true => None,
        false => Some(File::create(names::path(&options.file)).map_err(|error| {
            let reason = sentence(error.raw_os_error().unwrap_or_default());
            failed(format!("failed to open file: {reason}\n{what}: {reason}"))
        })?),
    };
    let mut sink: Box<dyn Write> = match &file {
        Some(file) => Box::new(file),
        None => Box::new(io::stdout().lock()),
    };
    let size = scope.op_size()?;
    let progress = Progress::of_bytes("Reading", None, options.file != STANDARD);
    let result = read_all(pool, object, size, |bytes, done| {
        progress.at(done);
        sink.write_all(bytes).map_err(output::failed)
    });
    let result = result.await;
    progress.finish();
    result.map_err(|failure| match failure {
        ReadFailure::Object(error) => because(what)(error),
        ReadFailure::Sink(failure) => failure,
    })?;
    sink.flush().and_then(|()| file.as_ref().map_or(Ok(()), output::sync)).map_err(output::failed)
}

enum ReadFailure {
    Object(Error),
    Sink(Failure),
}

/// Reads an object to its end, which the first short read tells. The second read begins when the first one was whole, so
/// that small objects cost one.
async fn read_all(
    pool: &Pool,
    object: &str,
    size: u64,
    mut take: impl FnMut(&[u8], u64) -> Result<(), Failure>,
) -> Result<(), ReadFailure> {
    let mut window = Window::new(DEPTH);
    let mut done = 0;
    let mut next = 0;
    window.begin(read(pool, object, next, size));
    while let Some(piece) = window.oldest().await {
        let (bytes, filled) = piece.map_err(ReadFailure::Object)?;
        next = next.max(size);
        done += filled as u64;
        take(&bytes[..filled], done).map_err(ReadFailure::Sink)?;
        if (filled as u64) < size {
            return Ok(());
        }
        while window.has_room() {
            window.begin(read(pool, object, next, size));
            next += size;
        }
    }
    Ok(())
}

async fn read(pool: &Pool, object: &str, offset: u64, size: u64) -> Result<(SegmentMut, usize), Error> {
    pool.read_into(object, offset, SegmentMut::zeroed(size as usize)).await
}

pub(super) async fn put(pool: &Pool, scope: &Scope, options: &PutOptions) -> Result<(), Failure> {
    let object = &options.object;
    let begin = match &options.offset {
        None => 0,
        Some(text) if text == "0" => 0,
        Some(text) => number("offset", Some(text), 0)?,
    };
    let is_whole = options.offset.is_none();
    let what = || because(format!("error putting {}/{object}", pool.name()));
    let mut source = Upload::open(&options.file, scope.op_size()?)?;
    let mut window = Window::new(DEPTH);
    let mut at = begin;
    while let Some(bytes) = source.next()? {
        let length = bytes.len() as u64;
        if !window.has_room() {
            window.oldest().await.transpose().map_err(what())?;
        }
        let (offset, is_first) = (at, at == 0 && is_whole);
        window.begin(async move {
            match is_first {
                true => pool.write_full(object, bytes).await,
                false => pool.write(object, offset, bytes).await,
            }
        });
        at += length;
    }
    if at == begin {
        // An empty file makes an empty object, or one with a hole up to the offset.
        pool.write_full(object, Vec::new()).await.map_err(what())?;
        if begin > 0 {
            pool.truncate(object, begin).await.map_err(what())?;
        }
    }
    drain(&mut window).await.map_err(what())
}

pub(super) async fn append(pool: &Pool, scope: &Scope, options: &AppendOptions) -> Result<(), Failure> {
    let object = &options.object;
    let what = || because(format!("error appending {}/{object}", pool.name()));
    let mut source = Upload::open(&options.file, scope.op_size()?)?;
    let mut window = Window::new(DEPTH);
    let mut is_empty = true;
    while let Some(bytes) = source.next()? {
        is_empty = false;
        if !window.has_room() {
            window.oldest().await.transpose().map_err(what())?;
        }
        // Requests to one object are applied in their order.
        window.begin(pool.append(object, bytes));
    }
    if is_empty {
        window.begin(pool.append(object, Vec::new()));
    }
    drain(&mut window).await.map_err(what())
}

/// Waits for all requests, and gives the first error.
async fn drain(window: &mut Window<'_, Result<(), Error>>) -> Result<(), Error> {
    let mut result = Ok(());
    while let Some(next) = window.oldest().await {
        result = result.and(next);
    }
    result
}

/// What is read in whole pieces.
struct Upload {
    name: String,
    input: Box<dyn Read>,
    size: usize,
    progress: Progress,
    done: u64,
}

impl Upload {
    fn open(name: &str, size: u64) -> Result<Self, Failure> {
        let (input, total): (Box<dyn Read>, _) = if name == STANDARD {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = File::open(names::path(name)).map_err(unreadable(name))?;
            let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file);
            let total = metadata.map(|metadata| metadata.len());
            (Box::new(file), total)
        };
        let progress = Progress::of_bytes("Writing", total, name != STANDARD);
        Ok(Self { name: name.to_owned(), input, size: size as usize, progress, done: 0 })
    }

    /// The next piece; only the last one is shorter than the others. `None`: there is no more.
    fn next(&mut self) -> Result<Option<SegmentMut>, Failure> {
        self.progress.at(self.done);
        let mut bytes = SegmentMut::zeroed(self.size);
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&self.name)(error)),
            }
        }
        bytes.truncate(filled);
        self.done += filled as u64;
        Ok((filled > 0).then_some(bytes))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.progress.finish();
    }
}

fn unreadable(name: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let reason = sentence(error.raw_os_error().unwrap_or_default());
        failed(format!("error reading input file {name}: {reason}"))
    }
}
