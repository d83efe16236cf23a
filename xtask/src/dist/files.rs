//! Archives and sums of files.

use crate::sh;
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The bytes of an archive of a folder, whose entries begin with `prefix`: the same for the same files.
pub(super) fn tar_of(folder: &Path, prefix: &str, date: u64) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for path in files_below(folder)? {
        let name = Path::new(prefix).join(path.strip_prefix(folder)?);
        let metadata = fs::metadata(&path)?;
        let mode = if metadata.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 };
        let mut header = header(metadata.len(), mode, date);
        archive.append_data(&mut header, name, File::open(&path)?)?;
    }
    Ok(archive.into_inner()?)
}

/// What an archive says of a file; the owner is root.
pub(super) fn header(size: u64, mode: u32, date: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(date);
    header
}

/// All files below a folder, in order.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn zstd(path: &Path, bytes: &[u8]) -> Result<()> {
    const LEVEL: i32 = 19;
    fs::write(path, zstd::bulk::compress(bytes, LEVEL)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A line for each file, as `sha256sum --check` reads them.
pub(super) fn sums_of(folder: &Path, files: &[&Path]) -> Result<String> {
    let names = files.iter().filter_map(|file| file.file_name());
    sh::text(Command::new("sha256sum").current_dir(folder).arg("--").args(names))
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let said = sh::text(Command::new("sha256sum").arg("--").arg(path))?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}
