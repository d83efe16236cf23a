//! Checksums of an object's bytes.

use onego_buf::crc32c;
use onego_ceph::ops::ChecksumKind;
use onego_wire::Writer;
use twox_hash::{XxHash32, XxHash64};

/// Writes the checksum of some bytes, which begins with `seed`.
pub(in crate::osd) fn write(w: &mut Writer, kind: ChecksumKind, seed: u64, bytes: &[u8]) {
    match kind {
        ChecksumKind::XxHash32 => w.u32(XxHash32::oneshot(seed as u32, bytes)),
        ChecksumKind::XxHash64 => w.u64(XxHash64::oneshot(seed, bytes)),
        ChecksumKind::Crc32c => w.u32(crc32c(seed as u32, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_other_programs() {
        // Those of nothing and of short texts are in the specification's appendix and in xxhsum's own tests.
        assert_eq!(XxHash32::oneshot(0, b""), 0x02cc_5d05);
        assert_eq!(XxHash32::oneshot(0, b"abc"), 0x32d1_53ff);
        assert_eq!(XxHash64::oneshot(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(XxHash64::oneshot(0, b"abc"), 0x44bc_2cf5_ad77_0999);
        let long = b"Nobody inspects the spammish repetition";
        assert_eq!(XxHash32::oneshot(0, long), 0xe229_3b2f);
        assert_eq!(XxHash64::oneshot(0, long), 0xfbce_a83c_8a37_8bf1);
    }
}
