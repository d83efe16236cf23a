//! Disks in qcow2 files, read and written through the crate `imago`.
//!
//! A qcow2 file may name other files: a backing file, which has the bytes that it lacks, and an external data file. The
//! author of the file chose those names and may have chosen `/etc/shadow`, so following them is up to the caller.

use crate::error::OpenError;
use crate::format::FileFormat;
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
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a sector of QEMU's.
const SECTOR: u64 = 512;

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
    /// Bytes of a cluster.
    cluster_size: u64,
}

impl Container {
    /// Opens a qcow2 file for reading. `path` resolves relative names of other files.
    pub fn open(file: File, path: &Path, backing: Backing) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Container { path: path.to_owned(), source };
        let cluster_size = check_header(&file).map_err(failed)?;
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
        Ok(Self { access: Arc::new(FormatAccess::new(qcow2)), path: path.to_owned(), cluster_size })
    }

    /// Makes an empty qcow2 file for a disk of `size` bytes out of an open one that has no bytes. QEMU reads only whole sectors, so that
    /// the disk ends with zeros up to a multiple of 512 bytes.
    pub fn create(file: File, path: &Path, size: u64) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Container { path: path.to_owned(), source };
        let options = StorageOpenOptions::new().filename(path).write(true);
        let storage = Storage::from_open_file(file, options).map_err(failed)?;
        let builder = Qcow2::<Storage>::create_builder(storage).size(size.next_multiple_of(SECTOR));
        let open = |storage| Ok(Qcow2::builder(storage).backing(None).write(true));
        let qcow2 = builder.create_open(DenyImplicitOpenGate::default(), open).map_err(failed)?;
        Ok(Self {
            access: Arc::new(FormatAccess::new(qcow2)),
            path: path.to_owned(),
            cluster_size: CLUSTER_MAX,
        })
    }

    /// Bytes of the disk.
    pub fn size(&self) -> u64 {
        self.access.size()
    }

    /// Fills a buffer with the bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (mut at, end) = (offset, offset + buffer.len() as u64);
        while at < end {
            at += self.run(at, end - at)?.1;
        }
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
        if let Mapping::Raw { storage, offset, .. } = mapping {
            let end = storage.size()?;
            // A writer may leave out the end of the last cluster.
            if offset.saturating_add(run) >= end.saturating_add(self.cluster_size) {
                return Err(truncated(offset, end));
            }
        }
        let is_data = !matches!(mapping, Mapping::Zero { .. } | Mapping::Eof { .. });
        // An empty run would keep callers at its place.
        Ok((is_data, if run == 0 { length } else { run.min(length) }))
    }
}

/// Most bytes of a cluster (QEMU's `MAX_CLUSTER_BITS`).
const CLUSTER_MAX: u64 = 2 << 20;

/// Most bytes of a table of the first level (QEMU's `QCOW_MAX_L1_SIZE`).
const L1_MAX: u64 = 32 << 20;

/// Bits of an entry of the first level that are an offset.
const L1_OFFSET: u64 = 0x00ff_ffff_ffff_fe00;

/// Checks what the crate `imago` leaves to its callers (QEMU `docs/interop/qcow2.txt`): it reads encrypted data as it is stored, and
/// zeros where a table or data lie past the end of the file. Returns the size of a cluster.
///
/// The table of the first level must cover the disk: a small file could claim a disk that no reader comes to the end of.
fn check_header(mut file: &File) -> io::Result<u64> {
    let failed = |reason: String| Err(io::Error::other(reason));
    let mut header = [0; 48];
    file.read_exact_at(&mut header, 0)?;
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap_or_default());
    let long = |at: usize| u64::from(number(at)) << 32 | u64::from(number(at + 4));
    let (version, cluster_bits, size) = (number(4), number(20), long(24));
    let (encryption, entries, table) = (number(32), u64::from(number(36)), long(40));
    if !matches!(version, 2 | 3) {
        return failed(format!("version {version} of qcow2 is not supported"));
    }
    if encryption != 0 {
        return failed("it is encrypted: decrypt it with \"qemu-img convert\" first".into());
    }
    // Entries of the second level have 8 bytes. Sizes of clusters that do not exist are refused later.
    let per_entry = 1_u64.checked_shl(cluster_bits.saturating_mul(2).saturating_sub(3)).unwrap_or(u64::MAX);
    let covered = per_entry.saturating_mul(entries);
    if size > covered || entries * 8 > L1_MAX {
        return failed(format!("its {entries} tables cover {covered} bytes, and the disk has {size}"));
    }
    let end = file.seek(SeekFrom::End(0))?;
    if table.saturating_add(entries * 8) > end {
        return Err(truncated(table, end));
    }
    let mut entries = vec![0; (entries * 8) as usize];
    file.read_exact_at(&mut entries, table)?;
    let entries = entries.chunks_exact(8).map(|entry| entry.try_into().map_or(0, u64::from_be_bytes));
    match entries.map(|entry| entry & L1_OFFSET).find(|offset| *offset >= end.max(1)) {
        Some(offset) => Err(truncated(offset, end)),
        None => Ok(1_u64.checked_shl(cluster_bits).unwrap_or(CLUSTER_MAX).min(CLUSTER_MAX)),
    }
}

fn truncated(offset: u64, end: u64) -> io::Error {
    io::Error::other(format!("it is truncated: it uses offset {offset}, and has {end} bytes"))
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
            let file = File::open(path)?;
            if FileFormat::detect(&file)? == Some(FileFormat::Qcow2) {
                check_header(&file)?;
            }
        }
        Storage::open(options.write(false))
    }
}
