//! Files that show through an image. A thread of their own reads them: a disk may keep a read waiting.

use crate::ceph::error::{Errno, Error};
use crate::ceph::source_files::{SourceFileError, SourceFilesPolicy};
use futures_channel::oneshot;
use onego_buf::List;
use onego_ceph::types::NOSNAP;
use onego_rbd::{ExternalBytes, ExternalRead};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

/// Files with what an image was at its snapshots, oldest first, and what it is.
#[derive(Debug)]
pub(in crate::rbd) struct SourceFiles {
    /// What each has, in bytes.
    sizes: Vec<u64>,
    /// Reads for the thread. Those who use the image bound them.
    reads: mpsc::Sender<FileRead>,
}

/// One of these files.
#[derive(Debug, Clone)]
pub(in crate::rbd) struct SourceFile {
    files: Arc<SourceFiles>,
    index: usize,
}

/// A read of a file.
struct FileRead {
    index: usize,
    range: Range<u64>,
    done: oneshot::Sender<Result<Vec<u8>, Error>>,
}

impl SourceFiles {
    /// Opens files. The last is what the image is.
    pub(super) async fn open(
        paths: Vec<PathBuf>,
        policy: &Arc<SourceFilesPolicy>,
    ) -> Result<Arc<Self>, Error> {
        let ((opened, sizes), (reads, queue)) = (oneshot::channel(), mpsc::channel());
        let policy = Arc::clone(policy);
        let run = move || match open_all(&paths, &policy) {
            Ok((files, sizes)) => {
                // A caller that does not wait any more drops the queue, too.
                let _ = opened.send(Ok(sizes));
                serve(&files, &queue);
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        thread::Builder::new()
            .name("onego-import".into())
            .spawn(run)
            .map_err(|source| Error::Io { what: "starting a thread", source })?;
        let sizes = sizes.await.map_err(|_| Error::Closed)??;
        Ok(Arc::new(Self { sizes, reads }))
    }

    /// Bytes of the files for the snapshots, oldest first, and of the one for the image.
    pub(in crate::rbd) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The file for a snapshot, of which the oldest has the number 1, or for the image ([`NOSNAP`]).
    pub(in crate::rbd) fn at(self: &Arc<Self>, snap: u64) -> Result<SourceFile, Error> {
        let last = self.sizes.len() - 1;
        let index = match snap {
            NOSNAP => Some(last),
            snap => {
                usize::try_from(snap).ok().and_then(|snap| snap.checked_sub(1)).filter(|index| *index < last)
            }
        };
        let missing = || Error::NotFound { what: format!("the file of snapshot {snap} in the source-spec") };
        Ok(SourceFile { files: Arc::clone(self), index: index.ok_or_else(missing)? })
    }
}

impl SourceFile {
    /// Bytes that it has.
    pub(in crate::rbd) fn size(&self) -> u64 {
        self.files.sizes[self.index]
    }

    /// The bytes of a range; behind its end there are zeros.
    pub(in crate::rbd) async fn bytes(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let length = (range.end - range.start) as usize;
        let there = range.start..range.end.min(self.size());
        let mut bytes = Vec::new();
        if !there.is_empty() {
            let (done, answer) = oneshot::channel();
            let read = FileRead { index: self.index, range: there, done };
            self.files.reads.send(read).map_err(|_| Error::Closed)?;
            bytes = answer.await.map_err(|_| Error::Closed)??;
        }
        bytes.resize(length, 0);
        Ok(bytes)
    }
}

impl ExternalBytes for SourceFile {
    fn read(&self, range: Range<u64>) -> ExternalRead {
        let file = self.clone();
        Box::pin(async move { file.bytes(range).await.map(List::from).map_err(Error::into_image) })
    }
}

type OpenedFile = (PathBuf, File);

fn open_all(paths: &[PathBuf], policy: &SourceFilesPolicy) -> Result<(Vec<OpenedFile>, Vec<u64>), Error> {
    let open = |path: &PathBuf| {
        let mut file = policy.open(path)?;
        // A block device tells its size so, too.
        let size = file.seek(SeekFrom::End(0))?;
        Ok(((path.clone(), file), size))
    };
    let opened = paths.iter().map(|path| {
        open(path).map_err(|error| match error {
            SourceFileError::NotAllowed => not_allowed(path),
            SourceFileError::Io(error) => failed(path, &error),
        })
    });
    Ok(opened.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

/// Reads until nobody uses the files any more.
fn serve(files: &[OpenedFile], queue: &mpsc::Receiver<FileRead>) {
    for FileRead { index, range, done } in queue {
        let (path, file) = &files[index];
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = file.read_exact_at(&mut bytes, range.start).map_err(|error| failed(path, &error));
        // A caller that does not wait any more needs no answer.
        let _ = done.send(read.map(|()| bytes));
    }
}

fn not_allowed(path: &Path) -> Error {
    let advice = "rbd_source_folder (--source-folder) names the folder with such files";
    let what =
        format!("file {} may not be read for an image that is filled from it: {advice}", path.display());
    Error::Unmet { what, errno: Errno::ACCES }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let what = format!("file {}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { what },
        _ => {
            let errno = error.raw_os_error().map_or(Errno::IO, Errno);
            Error::Unmet { what: format!("{what}: {error}"), errno }
        }
    }
}
