/// Continues the CRC-32C `seed` over `bytes`, as Ceph does it: the register starts as `seed` and is not inverted,
/// neither before nor after. Ceph's usual seeds are 0 and -1 (`u32::MAX`).
///
/// Source: ceph `src/include/crc32c.h`; the polynomial is RFC 3720's.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    // The register is the complement of what the usual form of the CRC shows outside.
    let mut digest =
        crc_fast::Digest::new_with_init_state(crc_fast::CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(bytes);
    !(digest.finalize() as u32)
}
