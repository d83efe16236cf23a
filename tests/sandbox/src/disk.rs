//! Disk images with known content and holes, and comparison of files.

use anyhow::{Context as _, Result, bail};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Size of the image in bytes: whole sectors, but neither whole objects nor whole stripes.
pub const SIZE: u64 = 200 * MIB + 3 * 512;
/// Default object size of images.
const OBJECT: u64 = 4 * MIB;

/// Data as (offset, length); everything else is a hole.
const EXTENTS: &[(u64, u64)] = &[
    (0, 512),                           // the first sector
    (3 * MIB, 2 * MIB),                 // across two objects
    (12 * MIB, 4 * MIB),                // a whole object
    (17 * MIB + 1536, 7 * 512),         // odd sectors inside an object
    (40 * MIB, 33 * MIB),               // many objects
    (100 * MIB + 4096, 4096),           // one page
    (4 * MIB * 31 - 512, 1024),         // both sides of a boundary
    (150 * MIB, 12 * MIB + 128 * 1024), // a long piece with an odd end
    (SIZE - 512, 512),                  // the last sector
];

/// Writes the image as a sparse file with content from `seed`.
pub fn make(path: &Path, seed: u64) -> Result<()> {
    let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.set_len(SIZE)?;
    let mut random = Random(seed);
    for &(offset, length) in EXTENTS {
        file.write_all_at(&random.bytes(usize::try_from(length)?), offset)?;
    }
    if !is_sparse(path)? {
        bail!("the file system of {} makes no holes", path.display());
    }
    Ok(())
}

/// Writes a small image of which half compresses well and half not at all.
pub fn make_text(path: &Path) -> Result<()> {
    let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut random = Random(1);
    for part in 0..TEXT_PARTS {
        let line = format!("part {part} of a text that says little\n");
        file.write_all_at(&line.repeat(2000).as_bytes()[..TEXT_PART], part * 2 * TEXT_PART as u64)?;
        file.write_all_at(&random.bytes(TEXT_PART), (part * 2 + 1) * TEXT_PART as u64)?;
    }
    Ok(())
}

/// Pieces of text that [`make_text`] writes, each followed by as many random bytes.
const TEXT_PARTS: u64 = 64;
const TEXT_PART: usize = 64 << 10;

/// Returns the number of objects of the image that contain data.
pub fn objects_with_data() -> usize {
    let objects =
        EXTENTS.iter().flat_map(|(offset, length)| offset / OBJECT..=(offset + length - 1) / OBJECT);
    objects.collect::<std::collections::BTreeSet<_>>().len()
}

/// Returns whether the file occupies less than half its length.
pub fn is_sparse(path: &Path) -> Result<bool> {
    let metadata = path.metadata()?;
    Ok(metadata.blocks() * 512 < metadata.len() / 2)
}

/// Fails with the offset of the first difference of two files.
pub fn compare(one: &Path, other: &Path) -> Result<()> {
    let open = |path: &Path| File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let (mut a, mut b) = (open(one)?, open(other)?);
    let (long_a, long_b) = (a.metadata()?.len(), b.metadata()?.len());
    if long_a != long_b {
        bail!("{} has {long_a} bytes and {} has {long_b}", one.display(), other.display());
    }
    let (mut part_a, mut part_b) = (vec![0; MIB as usize], vec![0; MIB as usize]);
    let mut at = 0;
    while at < long_a {
        let n = usize::try_from(MIB.min(long_a - at))?;
        a.read_exact(&mut part_a[..n])?;
        b.read_exact(&mut part_b[..n])?;
        // Comparing slices as a whole is fast even without optimization.
        if part_a[..n] != part_b[..n] {
            let first = at + (0..n).take_while(|i| part_a[*i] == part_b[*i]).count() as u64;
            bail!("{} and {} differ at byte {first}", one.display(), other.display());
        }
        at += n as u64;
    }
    Ok(())
}

/// Pseudorandom numbers from a seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, with a bias of `bound / 2^64`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// Returns `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(n + 8);
        while bytes.len() < n {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(n);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        make(&one, 1).expect("an image");
        make(&other, 1).expect("an image");
        compare(&one, &other).expect("equal images");
        let file = File::options().write(true).open(&other).expect("the image");
        file.write_all_at(&[1], 90 * MIB + 7).expect("a write");
        let error = compare(&one, &other).expect_err("a difference");
        assert!(error.to_string().ends_with(&format!("differ at byte {}", 90 * MIB + 7)), "{error}");
    }
}
