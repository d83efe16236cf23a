//! Checksums of an object's bytes.
//!
//! Source: `doc/xxhash_spec.md` of github.com/Cyan4973/xxHash.

use onego_buf::crc32c;
use onego_ceph::ops::ChecksumKind;
use onego_wire::Writer;

/// Writes the checksum of some bytes, which begins with `seed`.
pub(in crate::osd) fn write(w: &mut Writer, kind: ChecksumKind, seed: u64, bytes: &[u8]) {
    match kind {
        ChecksumKind::XxHash32 => w.u32(xxhash32(seed as u32, bytes)),
        ChecksumKind::XxHash64 => w.u64(xxhash64(seed, bytes)),
        ChecksumKind::Crc32c => w.u32(crc32c(seed as u32, bytes)),
    }
}

/// Bytes of a number that is read at a time.
fn words32(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn words64(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(*word.first_chunk()?)))
}

fn xxhash32(seed: u32, bytes: &[u8]) -> u32 {
    const P: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];
    let mut stripes = bytes.chunks_exact(16);
    let mut hash = if bytes.len() < 16 {
        seed.wrapping_add(P[4])
    } else {
        let mut lanes = [
            seed.wrapping_add(P[0]).wrapping_add(P[1]),
            seed.wrapping_add(P[1]),
            seed,
            seed.wrapping_sub(P[0]),
        ];
        for stripe in &mut stripes {
            for (lane, word) in lanes.iter_mut().zip(words32(stripe)) {
                *lane = lane.wrapping_add(word.wrapping_mul(P[1])).rotate_left(13).wrapping_mul(P[0]);
            }
        }
        let turned = lanes.into_iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
        turned.fold(0, u32::wrapping_add)
    };
    hash = hash.wrapping_add(bytes.len() as u32);
    let rest = if bytes.len() < 16 { bytes } else { stripes.remainder() };
    for word in words32(rest) {
        hash = hash.wrapping_add(word.wrapping_mul(P[2])).rotate_left(17).wrapping_mul(P[3]);
    }
    for byte in rest.chunks_exact(4).remainder() {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(P[4])).rotate_left(11).wrapping_mul(P[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(P[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(P[2]);
    hash ^ hash >> 16
}

fn xxhash64(seed: u64, bytes: &[u8]) -> u64 {
    const P: [u64; 5] = [
        0x9e37_79b1_85eb_ca87,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0x85eb_ca77_c2b2_ae63,
        0x27d4_eb2f_1656_67c5,
    ];
    let round =
        |lane: u64, word: u64| lane.wrapping_add(word.wrapping_mul(P[1])).rotate_left(31).wrapping_mul(P[0]);
    let mut stripes = bytes.chunks_exact(32);
    let mut hash = if bytes.len() < 32 {
        seed.wrapping_add(P[4])
    } else {
        let mut lanes = [
            seed.wrapping_add(P[0]).wrapping_add(P[1]),
            seed.wrapping_add(P[1]),
            seed,
            seed.wrapping_sub(P[0]),
        ];
        for stripe in &mut stripes {
            lanes.iter_mut().zip(words64(stripe)).for_each(|(lane, word)| *lane = round(*lane, word));
        }
        let turned = lanes.into_iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
        let merged = turned.fold(0, u64::wrapping_add);
        lanes
            .into_iter()
            .fold(merged, |hash, lane| (hash ^ round(0, lane)).wrapping_mul(P[0]).wrapping_add(P[3]))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let rest = if bytes.len() < 32 { bytes } else { stripes.remainder() };
    for word in words64(rest) {
        hash = (hash ^ round(0, word)).rotate_left(27).wrapping_mul(P[0]).wrapping_add(P[3]);
    }
    let rest = rest.chunks_exact(8).remainder();
    for word in words32(rest) {
        hash =
            (hash ^ u64::from(word).wrapping_mul(P[0])).rotate_left(23).wrapping_mul(P[1]).wrapping_add(P[2]);
    }
    for byte in rest.chunks_exact(4).remainder() {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P[4])).rotate_left(11).wrapping_mul(P[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(P[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_other_programs() {
        // Those of nothing and of short texts are in the specification's appendix and in xxhsum's own tests.
        assert_eq!(xxhash32(0, b""), 0x02cc_5d05);
        assert_eq!(xxhash32(0, b"abc"), 0x32d1_53ff);
        assert_eq!(xxhash64(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxhash64(0, b"abc"), 0x44bc_2cf5_ad77_0999);
        let long = b"Nobody inspects the spammish repetition";
        assert_eq!(xxhash32(0, long), 0xe229_3b2f);
        assert_eq!(xxhash64(0, long), 0xfbce_a83c_8a37_8bf1);
    }
}
