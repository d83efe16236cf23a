//! What import and export have in common.

use std::ops::Range;

/// Bytes of one read or write of a file, and of the image: a part of an object, and enough to cost little.
pub(super) const PIECE: u64 = 1 << 20;

/// Pieces in flight: more than any network keeps on its way, and little memory.
pub(super) const WINDOW: usize = 32;

/// What a path is called that means standard input or output.
pub(super) const STANDARD: &str = "-";

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

/// The parts of `bytes` that have to be kept: what is left when blocks of `grain` bytes that are zeros are taken
/// away. `bytes` begin at a multiple of `grain`.
pub(super) fn data_in(bytes: &[u8], grain: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (i, block) in bytes.chunks(grain).enumerate().filter(|(_, block)| !is_zeros(block)) {
        let (start, end) = (i * grain, i * grain + block.len());
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 1000];
        assert!(data_in(&bytes, 100).is_empty());
        bytes[250] = 1;
        bytes[399] = 1;
        bytes[999] = 1;
        assert_eq!(data_in(&bytes, 100), [200..400, 900..1000]);
        assert_eq!(data_in(&bytes, 300), [0..600, 900..1000]);
        assert!(data_in(&[], 100).is_empty());
        assert_eq!(data_in(&[0, 1], 1), vec![1..2]);
    }
}
