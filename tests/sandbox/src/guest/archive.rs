//! Initial RAM file systems in cpio's format "newc".
//!
//! Source: linux `Documentation/driver-api/early-userspace/buffer-format.rst`.

use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Files and folders by their names, which start without `/`.
#[derive(Default)]
pub(super) struct Archive {
    /// Content of files; none for folders. The order of names puts folders before their files.
    entries: BTreeMap<String, Option<Vec<u8>>>,
}

impl Archive {
    /// Adds a folder and its parents.
    pub(super) fn folder(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent);
        }
        self.entries.insert(name.to_owned(), None);
    }

    /// Adds an executable file and its folders.
    pub(super) fn program(&mut self, name: &str, content: Vec<u8>) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent);
        }
        self.entries.insert(name.to_owned(), Some(content));
    }

    /// Writes the archive to a file.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut out = BufWriter::new(file);
        self.write_to(&mut out)?;
        Ok(out.flush()?)
    }

    /// Creates the folder `root` with the archive's files.
    pub(super) fn write_tree(&self, root: &Path) -> Result<()> {
        fs::create_dir(root).with_context(|| format!("cannot create {}", root.display()))?;
        for (name, content) in &self.entries {
            let path = root.join(name);
            match content {
                None => fs::create_dir(&path)?,
                Some(content) => {
                    fs::write(&path, content)?;
                    fs::set_permissions(&path, Permissions::from_mode(PROGRAM & 0o777))?;
                }
            }
        }
        Ok(())
    }

    fn write_to(&self, out: &mut impl Write) -> Result<()> {
        for (number, (name, content)) in (1..).zip(&self.entries) {
            let mode = if content.is_some() { PROGRAM } else { FOLDER };
            write_entry(out, number, mode, name, content.as_deref().unwrap_or_default())?;
        }
        write_entry(out, 0, 0, "TRAILER!!!", &[])
    }
}

/// Writes a header of a magic number and thirteen hexadecimal fields, then name and content with padding.
fn write_entry(out: &mut impl Write, number: u32, mode: u32, name: &str, content: &[u8]) -> Result<()> {
    let size = u32::try_from(content.len()).with_context(|| format!("{name} has 4 GiB or more"))?;
    let name_size = u32::try_from(name.len() + 1)?;
    // Inode number, mode, owner, group, links, time, size, four device numbers, length of the name, checksum.
    let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
    write!(out, "070701")?;
    for field in fields {
        write!(out, "{field:08x}")?;
    }
    write!(out, "{name}\0")?;
    pad(out, 6 + 8 * fields.len() + name.len() + 1)?;
    out.write_all(content)?;
    pad(out, content.len())
}

/// Pads to a multiple of four bytes.
fn pad(out: &mut impl Write, written: usize) -> Result<()> {
    Ok(out.write_all(&[0; 3][..written.wrapping_neg() % 4])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_precede_files_and_entries_are_aligned() {
        let mut archive = Archive::default();
        archive.program("bin/a", b"12345".to_vec());
        archive.folder("tmp");
        let mut bytes = Vec::new();
        archive.write_to(&mut bytes).expect("writing to memory succeeds");
        let mut names = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            assert_eq!(&rest[..6], b"070701");
            let field = |i: usize| {
                let text = std::str::from_utf8(&rest[6 + 8 * i..14 + 8 * i]).expect("hexadecimal");
                usize::from_str_radix(text, 16).expect("hexadecimal")
            };
            let (size, name_size) = (field(6), field(11));
            names.push((
                String::from_utf8(rest[110..110 + name_size - 1].to_vec()).expect("a name"),
                field(1),
            ));
            rest = &rest[(110 + name_size).next_multiple_of(4) + size.next_multiple_of(4)..];
        }
        let expected = [("bin", 0o040_755), ("bin/a", 0o100_755), ("tmp", 0o040_755), ("TRAILER!!!", 0)];
        assert_eq!(names, expected.map(|(name, mode)| (name.to_owned(), mode)));
    }
}
