//! Detection of zeros.

use onego_buf::zeros;
use std::ops::Range;

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(zeros().len()).all(|chunk| chunk == &zeros()[..chunk.len()])
}

/// Returns the ranges of bytes that are not zeros, in blocks of `grain` bytes. The bytes may be split into pieces; they
/// begin at a multiple of `grain`, and their last block may be shorter.
///
/// # Panics
/// Panics if `grain` is 0.
pub fn data_in<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, grain: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for mut piece in pieces {
        while !piece.is_empty() {
            // Up to the end of the block.
            let (bytes, rest) = piece.split_at((grain - at % grain).min(piece.len()));
            let end = at + bytes.len();
            match parts.last_mut() {
                // The block has data in an earlier piece.
                Some(last) if last.end == at && !at.is_multiple_of(grain) => last.end = end,
                _ if is_zeros(bytes) => {}
                Some(last) if last.end == at / grain * grain => last.end = end,
                _ => parts.push(at / grain * grain..end),
            }
            at = end;
            piece = rest;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 1000];
        assert!(data_in([&bytes[..]], 100).is_empty());
        bytes[250] = 1;
        bytes[399] = 1;
        bytes[999] = 1;
        assert_eq!(data_in([&bytes[..]], 100), [200..400, 900..1000]);
        assert_eq!(data_in([&bytes[..]], 300), [0..600, 900..1000]);
        assert!(data_in([&[][..]], 100).is_empty());
        assert_eq!(data_in([&[0, 1][..]], 1), vec![1..2]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            ones in prop::collection::vec(0..300_usize, 0..6),
            cuts in prop::collection::vec(0..300_usize, 0..6),
            length in 1..300_usize,
            grain in 1..70_usize,
        ) {
            let mut bytes = vec![0; length];
            ones.into_iter().filter(|at| *at < length).for_each(|at| bytes[at] = 1);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| *at < length).collect();
            cuts.extend([0, length]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(data_in(pieces, grain), data_in([&bytes[..]], grain));
        }
    }
}
