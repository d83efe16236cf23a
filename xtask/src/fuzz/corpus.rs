//! Corpora that are kept in the tree: one archive a target, small, with the same bytes for the same inputs.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;

/// Most bytes of one archive. Those of all targets together stay below 4 MiB, in each version that git keeps.
const MAX_ARCHIVE: usize = 176 << 10;
/// Most bytes of one input, which is the fuzzer's own bound.
pub(super) const MAX_INPUT: u64 = 65536;
/// Most bytes of all inputs of an archive: a file that decompresses to more is none of ours.
const MAX_UNPACKED: u64 = 256 << 20;
/// The level of compression: archives are made seldom.
const LEVEL: i32 = 19;

/// What a corpus became.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// Inputs in the archive.
    pub(super) kept: usize,
    /// Inputs that did not fit: the largest.
    pub(super) left_out: usize,
    /// Bytes of the archive.
    pub(super) bytes: usize,
}

/// Packs the inputs of a folder, the smallest first, as many as fit.
pub(super) fn pack(corpus: &Path, archive: &Path) -> Result<Packed> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(corpus).with_context(|| format!("cannot list {}", corpus.display()))? {
        let path = entry?.path();
        inputs.push(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    inputs.sort_by(|one, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
    inputs.dedup();
    let (kept, bytes) = fitting(&inputs, MAX_ARCHIVE)?;
    fs::create_dir_all(archive.parent().unwrap_or(Path::new(".")))?;
    fs::write(archive, &bytes).with_context(|| format!("cannot write {}", archive.display()))?;
    Ok(Packed { kept, left_out: inputs.len() - kept, bytes: bytes.len() })
}

/// The archive of as many of the first inputs as fit into that many bytes, and how many those are.
fn fitting(inputs: &[Vec<u8>], limit: usize) -> Result<(usize, Vec<u8>)> {
    let mut best = compress(inputs)?;
    if best.len() <= limit {
        return Ok((inputs.len(), best));
    }
    let (mut fits, mut too_many) = (0, inputs.len());
    best = compress(&[])?;
    while too_many - fits > 1 {
        let middle = usize::midpoint(fits, too_many);
        let archive = compress(&inputs[..middle])?;
        if archive.len() <= limit {
            (fits, best) = (middle, archive);
        } else {
            too_many = middle;
        }
    }
    Ok((fits, best))
}

/// An archive of inputs, whose names are their places: hashes as names would take more room than small inputs.
fn compress(inputs: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (place, input) in inputs.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        header.set_size(input.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("kept-{place:05}"), input.as_slice())?;
    }
    Ok(zstd::encode_all(archive.into_inner()?.as_slice(), LEVEL)?)
}

/// Puts the inputs of an archive into a folder, beside what is there. Gives their number: none where there is no archive.
pub(super) fn unpack(archive: &Path, corpus: &Path) -> Result<usize> {
    if !archive.exists() {
        return Ok(0);
    }
    let read = || -> Result<usize> {
        let decoder = zstd::Decoder::new(fs::File::open(archive)?)?;
        let mut inputs = tar::Archive::new(std::io::Read::take(decoder, MAX_UNPACKED));
        let mut count = 0;
        for entry in inputs.entries()? {
            let mut entry = entry?;
            anyhow::ensure!(entry.size() <= MAX_INPUT, "an input of {} bytes", entry.size());
            // Paths that lead out of the folder are not unpacked.
            count += usize::from(entry.unpack_in(corpus)?);
        }
        Ok(count)
    };
    fs::create_dir_all(corpus)?;
    read().with_context(|| format!("cannot unpack {}; `git checkout` it", archive.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn folder(inputs: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, input) in inputs {
            fs::write(folder.path().join(name), input).unwrap();
        }
        folder
    }

    fn contents(folder: &Path) -> BTreeSet<Vec<u8>> {
        fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn what_is_packed_is_unpacked_and_equal_inputs_make_equal_archives() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("room/first"), place.path().join("second"));
        let one = folder(&[("x", b"long input"), ("y", b""), ("z", b"short"), ("again", b"short")]);
        let other = folder(&[("b", b"short"), ("c", b"long input"), ("a", b"")]);
        let packed = pack(one.path(), &first).unwrap();
        assert_eq!((packed.kept, packed.left_out), (3, 0));
        assert_eq!(pack(other.path(), &second).unwrap(), packed);
        assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());

        let corpus = place.path().join("corpus/target");
        assert_eq!(unpack(&first, &corpus).unwrap(), 3);
        assert_eq!(contents(&corpus), contents(other.path()));
        // Packed again beside inputs that were found since, nothing is kept twice.
        assert_eq!(pack(&corpus, &second).unwrap(), packed);
        assert_eq!(unpack(&place.path().join("none"), &corpus).unwrap(), 0);
    }

    #[test]
    fn the_smallest_inputs_stay_where_not_all_of_them_fit() {
        // Bytes that do not compress.
        let mut word = 1_u64;
        let mut noise = |length| -> Vec<u8> {
            let mut next = || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (word >> 56) as u8
            };
            (0..length).map(|_| next()).collect()
        };
        let inputs: Vec<Vec<u8>> = (1..60).map(|n| noise(n * 10)).collect();
        let (kept, archive) = fitting(&inputs, 4096).unwrap();
        assert!(archive.len() <= 4096 && (5..59).contains(&kept), "{kept} in {} bytes", archive.len());
        assert!(compress(&inputs[..=kept]).unwrap().len() > 4096, "one more would have fitted");
        assert_eq!(fitting(&inputs, 1 << 20).unwrap().0, inputs.len());
    }

    #[test]
    fn an_archive_that_is_broken_is_named() {
        let place = folder(&[("archive", b"no archive at all")]);
        let error = unpack(&place.path().join("archive"), &place.path().join("corpus")).unwrap_err();
        assert!(format!("{error:#}").contains("git checkout"), "{error:#}");
    }
}
