//! Disks in qcow2 files, read and written through the crate `imago`.
//!
//! A qcow2 file may name other files: a backing file, which has the bytes that it lacks, and an external data file. The
//! author of the file chose those names and may have chosen `/etc/shadow`, so following them is up to the caller.

use crate::error::OpenError;
use imago::file::File as Storage;
use imago::format::gate::ImplicitOpenGate;
use imago::qcow2::Qcow2;
use imago::{
    DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder, Mapping, Storage as _,
    StorageOpenOptions,
};
use onego_block::{BlockStatus, StatusExtent};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most files in a chain of backing files: more than any in use, and it ends one that leads back to itself.
const CHAIN_MAX: usize = 64;

/// Treatment of the files that a qcow2 file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backing {
    /// Opening a file that needs others fails.
    #[default]
    Refuse,
    /// Files named by the file are opened for reading, and files that those name.
    Follow,
}

/// A disk in an open qcow2 file. Clones are the same disk.
#[derive(Clone)]
pub struct Container {
    access: Arc<FormatAccess<Storage>>,
    path: PathBuf,
}

impl Container {
    /// Opens a qcow2 file for reading. `path` resolves relative names of other files.
    pub fn open(file: File, path: &Path, backing: Backing) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Container { path: path.to_owned(), source };
        check_size(&file).map_err(failed)?;
        let options = StorageOpenOptions::new().filename(path);
        let storage = Storage::from_open_file(file, options).map_err(failed)?;
        let mut qcow2 = Qcow2::<Storage>::open_image(storage, false).map_err(failed)?;
        let named = match qcow2.requires_external_data_file() {
            true => Some(qcow2.implicit_external_data_file().cloned().unwrap_or_default()),
            false => qcow2.implicit_backing_file().cloned(),
        };
        match (named, backing) {
            (None, _) => {}
            (Some(_), Backing::Follow) => {
                qcow2.open_implicit_dependencies_gated(Follow { left: CHAIN_MAX }).map_err(failed)?;
            }
            (Some(named), Backing::Refuse) => {
                return Err(OpenError::Backing { path: path.to_owned(), named });
            }
        }
        Ok(Self { access: Arc::new(FormatAccess::new(qcow2)), path: path.to_owned() })
    }

    /// Makes an empty qcow2 file of `size` bytes of an open one that has no bytes.
    pub fn create(file: File, path: &Path, size: u64) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Container { path: path.to_owned(), source };
        let options = StorageOpenOptions::new().filename(path).write(true);
        let storage = Storage::from_open_file(file, options).map_err(failed)?;
        let builder = Qcow2::<Storage>::create_builder(storage).size(size);
        let open = |storage| Ok(Qcow2::builder(storage).backing(None).write(true));
        let qcow2 = builder.create_open(DenyImplicitOpenGate::default(), open).map_err(failed)?;
        Ok(Self { access: Arc::new(FormatAccess::new(qcow2)), path: path.to_owned() })
    }

    /// Bytes of the disk.
    pub fn size(&self) -> u64 {
        self.access.size()
    }

    /// Fills a buffer with the bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.access.read(buffer, offset)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.access.write(bytes, offset)
    }

    pub(crate) fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.access.write_zeroes(offset, length)
    }

    /// Makes everything durable that was written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.access.flush()?;
        self.access.sync()
    }

    /// Returns the first run of data from `at` on, up to `end`; `None`: the rest reads as zeros.
    pub fn next_data(&self, mut at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
        while at < end {
            let (is_data, length) = self.run(at, end - at)?;
            if is_data {
                return Ok(Some((at, at + length)));
            }
            at += length;
        }
        Ok(None)
    }

    /// Returns the runs of data and of zeros, as many as one answer takes.
    pub(crate) fn status(&self, offset: u64, length: u64) -> io::Result<Vec<StatusExtent>> {
        let (mut runs, mut at, end) = (Vec::new(), offset, offset + length);
        while at < end && runs.len() < StatusExtent::MOST {
            let (is_data, length) = self.run(at, end - at)?;
            let status = if is_data { BlockStatus::DATA } else { BlockStatus::HOLE };
            StatusExtent::append(&mut runs, length, status);
            at += length;
        }
        Ok(runs)
    }

    /// Returns whether the bytes at an offset are data, and how many are like them; `length` at most.
    fn run(&self, offset: u64, length: u64) -> io::Result<(bool, u64)> {
        let (mapping, run) = self.access.get_mapping(offset, length)?;
        let is_data = !matches!(mapping, Mapping::Zero { .. } | Mapping::Eof { .. });
        // An empty run would keep callers at its place.
        Ok((is_data, if run == 0 { length } else { run.min(length) }))
    }
}

/// Fails if a file's table of the first level is too short for the size of the disk (QEMU `docs/interop/qcow2.txt`, "Header"): a
/// small file could claim a disk through which no reader comes to an end.
fn check_size(file: &File) -> io::Result<()> {
    let mut header = [0; 48];
    file.read_exact_at(&mut header, 0)?;
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap_or_default());
    let (cluster_bits, entries) = (number(20), number(36));
    let size = u64::from(number(24)) << 32 | u64::from(number(28));
    // Entries of the second level have 8 bytes. Sizes of clusters that do not exist are refused later.
    let per_entry = 1_u64.checked_shl(cluster_bits.saturating_mul(2).saturating_sub(3)).unwrap_or(u64::MAX);
    let covered = per_entry.saturating_mul(entries.into());
    if size > covered {
        return Err(io::Error::other(format!("its tables are for {covered} bytes, and the disk has {size}")));
    }
    Ok(())
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("path", &self.path).field("size", &self.size()).finish()
    }
}

/// Opens the files that a qcow2 file names, for reading, in a chain of limited length.
struct Follow {
    left: usize,
}

impl ImplicitOpenGate<Storage> for Follow {
    fn open_format<F: FormatDriverBuilder<Storage>>(
        &mut self,
        builder: F,
    ) -> io::Result<FormatAccess<Storage>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(io::Error::other(format!("the chain of backing files has more than {CHAIN_MAX}")));
        };
        builder.open(Self { left }).map(FormatAccess::new)
    }

    fn open_storage(&mut self, options: StorageOpenOptions) -> io::Result<Storage> {
        use std::os::unix::fs::FileTypeExt as _;
        if let Some(path) = options.get_filename() {
            // Opening a pipe waits for its other end, and opening a device may have effects.
            let kind = std::fs::metadata(path)?.file_type();
            if !kind.is_file() && !kind.is_block_device() {
                return Err(io::Error::other("it is neither a file nor a block device"));
            }
        }
        Storage::open(options.write(false))
    }
}
