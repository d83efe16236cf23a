//! Source files of an image. A separate thread reads them, because reads of a disk may block.

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

/// Files with the data of an image at its snapshots, oldest first, and at present.
#[derive(Debug)]
pub(in crate::rbd) struct SourceFiles {
    sizes: Vec<u64>,
    /// Queue of reads for the thread, bounded by the image's users.
    reads: mpsc::Sender<FileRead>,
}

#[derive(Debug, Clone)]
pub(in crate::rbd) struct SourceFile {
    files: Arc<SourceFiles>,
    index: usize,
}

struct FileRead {
    index: usize,
    range: Range<u64>,
    done: oneshot::Sender<Result<Vec<u8>, Error>>,
}

impl SourceFiles {
    /// Opens files; the last one has the image's present data.
    pub(super) async fn open(
        paths: Vec<PathBuf>,
        policy: &Arc<SourceFilesPolicy>,
    ) -> Result<Arc<Self>, Error> {
        let ((opened, sizes), (reads, queue)) = (oneshot::channel(), mpsc::channel());
        let policy = Arc::clone(policy);
        let run = move || match open_all(&paths, &policy) {
            Ok((files, sizes)) => {
                // If the caller has stopped waiting, this drops the queue as well.
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

    pub(in crate::rbd) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the file for a snapshot, numbered from 1 for the oldest, or for the image ([`NOSNAP`]).
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
    pub(in crate::rbd) fn size(&self) -> u64 {
        self.files.sizes[self.index]
    }

    /// Reads a range, with zeros past the end of the file.
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
        // Seeking also reports the size of a block device.
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

fn serve(files: &[OpenedFile], queue: &mpsc::Receiver<FileRead>) {
    for FileRead { index, range, done } in queue {
        let (path, file) = &files[index];
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = file.read_exact_at(&mut bytes, range.start).map_err(|error| failed(path, &error));
        // The caller may have stopped waiting.
        let _ = done.send(read.map(|()| bytes));
    }
}

fn not_allowed(path: &Path) -> Error {
    let advice = "set rbd_source_folder (--source-folder) to the folder of such files";
    let what =
        format!("file {} may not be read for an image that is imported from it: {advice}", path.display());
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
