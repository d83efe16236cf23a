mod shift;

/// Bytes up to which the processor's own instruction is fastest: eight bytes in three cycles, from the first on. What
/// is longer is worth the set-up of folding many bytes at a time.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 256;

/// Continues the CRC-32C `seed` over `bytes`, as Ceph does it: the register starts as `seed` and is not inverted,
/// neither before nor after. Ceph's usual seeds are 0 and -1 (`u32::MAX`).
///
/// Source: ceph `src/include/crc32c.h`; the polynomial is RFC 3720's.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2.
        return unsafe { short(seed, bytes) };
    }
    let register = long(bytes);
    // The CRC is linear: what differs between two registers before the bytes, and nothing else, is carried over their length.
    match seed {
        u32::MAX => register,
        _ => register ^ shift::over(bytes.len(), !seed),
    }
}

/// The register after `bytes` where it was `u32::MAX` before them.
///
/// This is the only call of the crate that folds. With its other forms, which take an algorithm, a program has the tables of all
/// of them, 0.8 MB.
fn long(bytes: &[u8]) -> u32 {
    // The register is the complement of what the usual form of the CRC shows outside.
    !crc_fast::crc32_iscsi(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(seed: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = u64::from(seed);
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let mut crc = crc as u32;
    let (half, rest) = rest.as_chunks::<4>();
    if let [half] = half {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*half));
    }
    let (quarter, rest) = rest.as_chunks::<2>();
    if let [quarter] = quarter {
        crc = _mm_crc32_u16(crc, u16::from_le_bytes(*quarter));
    }
    if let [last] = rest { _mm_crc32_u8(crc, *last) } else { crc }
}
