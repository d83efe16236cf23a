//! What imports of streams have in common: where the bytes come from, how far they are, and how they are resumed.

use crate::failure::Failure;
use crate::identity::SourceFacts;
use crate::interrupt;
use crate::partial_import::{MARK_EVERY, PartialImport};
use crate::rbd::transfer::{PIECE, STANDARD};
use onego::rados::Pool;
use onego::rbd::{self, ImportDiff, ImportImage};
use onego::{Segment, SegmentMut};
use onego_bench::report::progress::Progress;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A stream that is being read.
pub(super) struct StreamInput {
    path: std::path::PathBuf,
    reader: Box<dyn Read>,
    size: Option<u64>,
    /// Identity of a file.
    record: Option<String>,
}

impl StreamInput {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new(STANDARD) {
            return Ok(Self {
                path: "standard input".into(),
                reader: Box::new(io::stdin().lock()),
                size: None,
                record: None,
            });
        }
        let file = File::open(path).map_err(Failure::file(path))?;
        let about = file.metadata().map_err(Failure::file(path))?;
        let size = about.is_file().then_some(about.len());
        let record = SourceFacts::here(&about, None).text();
        Ok(Self { path: path.to_owned(), reader: Box::new(file), size, record })
    }

    /// A mark after the first `done` bytes.
    pub(super) fn mark(&self, done: u64) -> PartialImport {
        PartialImport { done, ..PartialImport::new(self.size, self.record.clone()) }
    }

    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    fn next(&mut self) -> Result<Option<Segment>, Failure> {
        let mut bytes = SegmentMut::zeroed(PIECE as usize);
        let read = self.reader.read(&mut bytes).map_err(Failure::file(&self.path))?;
        bytes.truncate(read);
        Ok((read > 0).then(|| bytes.freeze()))
    }
}

/// Takes a stream piece by piece.
pub(super) trait Importer {
    async fn push(&mut self, bytes: Segment) -> Result<(), onego::ceph::Error>;
    /// Bytes of the stream that need not be applied again.
    async fn applied(&mut self) -> Result<u64, onego::ceph::Error>;
    async fn finish(self) -> Result<(), onego::ceph::Error>;
    async fn abandon(self) -> Result<(), onego::ceph::Error>;
}

macro_rules! importer {
    ($name:ty) => {
        impl Importer for $name {
            async fn push(&mut self, bytes: Segment) -> Result<(), onego::ceph::Error> {
                self.push(bytes).await
            }

            async fn applied(&mut self) -> Result<u64, onego::ceph::Error> {
                self.applied().await
            }

            async fn finish(self) -> Result<(), onego::ceph::Error> {
                self.finish().await
            }

            async fn abandon(self) -> Result<(), onego::ceph::Error> {
                self.abandon().await
            }
        }
    };
}

importer!(ImportDiff);
importer!(ImportImage);

/// Where an earlier import of the same stream ended.
pub(super) async fn earlier(pool: &Pool, name: &str, source: &StreamInput) -> Result<u64, Failure> {
    let info = rbd::info(pool, name).await?;
    match PartialImport::at(pool, &info).await? {
        Some(mark) if (mark.of, &mark.source) == (source.size, &source.record) => Ok(mark.done),
        Some(_) => Err(Failure::Usage(format!(
            "the earlier import to {name} was of another stream, or the file changed since: remove the image and import again"
        ))),
        None => Err(Failure::Usage(format!("no import to {name} was interrupted: leave --resume out"))),
    }
}

/// Applies a stream to an image, which says how far that is.
pub(super) async fn run(
    pool: &Pool,
    name: &str,
    mut source: StreamInput,
    mut importer: impl Importer,
    progress: &Progress,
) -> Result<(), Failure> {
    let applied = apply(pool, name, &mut source, &mut importer, progress).await;
    if let Err(failure) = applied {
        // The first error is the one to tell.
        let _ = mark(pool, name, &source, &mut importer).await;
        let _ = importer.abandon().await;
        return Err(failure);
    }
    importer.finish().await?;
    let info = rbd::info(pool, name).await?;
    Ok(PartialImport::end(pool, &info).await?)
}

async fn apply(
    pool: &Pool,
    name: &str,
    source: &mut StreamInput,
    importer: &mut impl Importer,
    progress: &Progress,
) -> Result<(), Failure> {
    let (mut done, mut marked) = (0, 0);
    while let Some(bytes) = source.next()? {
        interrupt::check()?;
        done += bytes.len() as u64;
        interrupt::unless(importer.push(bytes)).await??;
        progress.at(done);
        if done >= marked + MARK_EVERY {
            mark(pool, name, source, importer).await?;
            marked = done;
        }
    }
    Ok(())
}

async fn mark(
    pool: &Pool,
    name: &str,
    source: &StreamInput,
    importer: &mut impl Importer,
) -> Result<(), Failure> {
    let done = importer.applied().await?;
    interrupt::progress();
    let info = rbd::info(pool, name).await?;
    Ok(source.mark(done).tell(pool, &info).await?)
}
