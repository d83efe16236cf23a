//! Bytes that identify their location and the write that they belong to.
//!
//! Every 512-byte sector of a write holds its offset and the generation of its block, and words derived from both and
//! the run's seed. Reading a sector shows whether it was lost, stale, misplaced or damaged.

use std::fmt;

/// Unit of marking: every storage layer in between moves it as a whole.
pub const SECTOR: usize = 512;

/// Unexpected content of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Zeros: never written, or lost.
    Zeros,
    /// Another generation of the same place: a stale or premature write.
    Generation(u32),
    /// Bytes of another place.
    Elsewhere {
        /// Their proper offset.
        offset: u64,
    },
    /// Bytes that this run did not write.
    Garbage,
}

/// A sector with unexpected content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset of its first byte.
    pub offset: u64,
    /// Expected generation; 0: zeros.
    pub expected: u32,
    /// Actual content.
    pub found: Found,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: expected ", self.offset)?;
        match self.expected {
            0 => f.write_str("zeros")?,
            n => write!(f, "write number {n}")?,
        }
        match self.found {
            Found::Zeros => f.write_str(", found zeros"),
            Found::Generation(n) => write!(f, ", found write number {n}"),
            Found::Elsewhere { offset } => write!(f, ", found data that belongs at byte {offset}"),
            Found::Garbage => f.write_str(", found bytes that were never written"),
        }
    }
}

/// Returns the words of a sector: offset, generation, and a sequence derived from them (SplitMix64).
fn words(seed: u64, offset: u64, generation: u32) -> impl Iterator<Item = u64> {
    let mut state = seed ^ offset.rotate_left(17) ^ u64::from(generation) << 40;
    let rest = std::iter::from_fn(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Some(z ^ (z >> 27))
    });
    [offset ^ seed, u64::from(generation) ^ !seed].into_iter().chain(rest)
}

/// Fills `bytes`, which lie at `offset`; both are whole sectors.
pub fn fill(bytes: &mut [u8], seed: u64, offset: u64, generation: u32) {
    for (sector, at) in bytes.chunks_exact_mut(SECTOR).zip((offset..).step_by(SECTOR)) {
        for (bytes, word) in sector.chunks_exact_mut(8).zip(words(seed, at, generation)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Zeroes `percent` percent of each sector, at its end.
pub fn blank(bytes: &mut [u8], percent: u8) {
    let kept = SECTOR * usize::from(100_u8.saturating_sub(percent)) / 100;
    bytes.chunks_mut(SECTOR).filter(|sector| sector.len() > kept).for_each(|sector| sector[kept..].fill(0));
}

/// Checks that `bytes`, which lie at `offset`, are those of `generation`; 0 stands for zeros. Returns the first sector
/// that differs.
pub fn check(bytes: &[u8], seed: u64, offset: u64, generation: u32) -> Result<(), Mismatch> {
    for (sector, at) in bytes.chunks_exact(SECTOR).zip((offset..).step_by(SECTOR)) {
        let as_expected = match generation {
            0 => sector.iter().all(|b| *b == 0),
            _ => sector.chunks_exact(8).zip(words(seed, at, generation)).all(|(b, w)| b == w.to_le_bytes()),
        };
        if !as_expected {
            return Err(Mismatch { offset: at, expected: generation, found: identify(sector, seed, at) });
        }
    }
    Ok(())
}

fn identify(sector: &[u8], seed: u64, at: u64) -> Found {
    if sector.iter().all(|b| *b == 0) {
        return Found::Zeros;
    }
    let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| sector[i * 8 + j]));
    let (offset, generation) = (word(0) ^ seed, word(1) ^ !seed);
    let Ok(generation) = u32::try_from(generation) else { return Found::Garbage };
    let genuine =
        sector.chunks_exact(8).zip(words(seed, offset, generation)).all(|(b, w)| b == w.to_le_bytes());
    match offset {
        _ if !genuine => Found::Garbage,
        offset if offset == at => Found::Generation(generation),
        offset => Found::Elsewhere { offset },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(offset: u64, generation: u32) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        fill(&mut bytes, 99, offset, generation);
        bytes
    }

    fn found(bytes: &[u8]) -> (u64, Found) {
        let mismatch = check(bytes, 99, 8192, 5).unwrap_err();
        assert_eq!(mismatch.expected, 5);
        (mismatch.offset, mismatch.found)
    }

    #[test]
    fn every_kind_of_damage_is_told_apart() {
        let good = written(8192, 5);
        assert_eq!(check(&good, 99, 8192, 5), Ok(()));
        assert_eq!(check(&[0; 1024], 99, 0, 0), Ok(()));

        let mut lost = good.clone();
        lost[1024..1536].fill(0);
        assert_eq!(found(&lost), (9216, Found::Zeros));
        let mut stale = good.clone();
        stale[3584..].copy_from_slice(&written(8192, 4)[3584..]);
        assert_eq!(found(&stale), (11776, Found::Generation(4)));
        assert_eq!(found(&written(0, 5)), (8192, Found::Elsewhere { offset: 0 }));
        for at in [0, 9, 100, 4095] {
            let mut damaged = good.clone();
            damaged[at] ^= 1;
            assert_eq!(found(&damaged).1, Found::Garbage, "byte {at}");
        }
    }

    #[test]
    fn the_requested_share_of_every_sector_is_blank() {
        let mut bytes = vec![1; 3 * SECTOR];
        blank(&mut bytes, 0);
        assert!(bytes.iter().all(|byte| *byte == 1));
        blank(&mut bytes, 25);
        assert!(bytes.chunks(SECTOR).all(|sector| sector[..384] == [1; 384] && sector[384..] == [0; 128]));
        blank(&mut bytes, 100);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
