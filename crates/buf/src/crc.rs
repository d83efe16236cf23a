mod shift;

/// Maximum size, in bytes, for which the processor's CRC instruction is fastest: eight bytes in three cycles, without
/// set-up. Longer input is worth the set-up of folding many bytes at a time.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 256;

/// Continues the CRC-32C `seed` over `bytes` like Ceph: the register starts as `seed` and is inverted neither before
/// nor after. Ceph's usual seeds are 0 and -1 (`u32::MAX`).
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
    // The CRC is linear: only the difference of two initial registers is carried over the length of the bytes.
    match seed {
        u32::MAX => register,
        _ => register ^ shift::over(bytes.len(), !seed),
    }
}

/// Returns the register after `bytes`, starting from `u32::MAX`.
///
/// The only folding call of the crate. Its other forms, which take an algorithm, would link the tables of all
/// algorithms into a program: 0.8 MB.
fn long(bytes: &[u8]) -> u32 {
    // The register is the complement of the CRC in its usual form.
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
