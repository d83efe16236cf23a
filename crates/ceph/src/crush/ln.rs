//! Fixed-point logarithm of straw2's draws.
//!
//! Every implementation of CRUSH has the same two tables, so they are the definition, including their errors. Here they
//! are computed as intended, and corrected by the errors. Source: ceph
//! `src/crush/mapper.c`, `crush_ln`, and `src/crush/crush_ln_table.h`.

/// Returns `2^44 * log2(u + 1)` for `u` from 0 to `0xffff`, in the tables' approximation.
#[inline]
pub(super) fn crush_ln(u: u32) -> u64 {
    // Normalized to 2^15 <= x <= 2^16.
    let x = u + 1;
    let shift = x.leading_zeros().saturating_sub(16);
    let x = x << shift;
    let exponent = u64::from(15 - shift);
    let coarse = &COARSE[(x >> 8) as usize - 128];
    // x divided by its top 8 bits: 2^15 plus the index of the fine table.
    let fine = (u64::from(x) * coarse.reciprocal) >> 48;
    (exponent << 44) + ((coarse.log + FINE[(fine & 0xff) as usize]) >> 4)
}

/// Entry for the top 8 bits of a normalized number, `m = 1 + k/128`.
#[derive(Clone, Copy)]
struct Coarse {
    /// `2^48 / m`, rounded up.
    reciprocal: u64,
    /// `2^48 * log2(m)`, rounded down.
    log: u64,
}

static COARSE: [Coarse; 129] = {
    let mut table = [Coarse { reciprocal: 0, log: 0 }; 129];
    let mut k = 0;
    while k < 128 {
        let m = 128 + k as u64;
        table[k] = Coarse { reciprocal: (1u64 << 55).div_ceil(m), log: log2((m as u128) << 120) };
        k += 1;
    }
    // Not 2^48: so that the logarithm of 2^16 is still less than 2^48 after the division by 2^4.
    table[128] = Coarse { reciprocal: 1 << 47, log: 0xffff_0000_0000 };
    table
};

/// `2^48 * log2(1 + k/2^15)`, plus the error of the original tables.
static FINE: [u64; 256] = {
    let mut table = [0; 256];
    let mut k = 0;
    while k < table.len() {
        table[k] = log2((32_768 + k as u128) << 112) + FINE_EXCESS;
        k += 1;
    }
    let mut i = 0;
    while i < FINE_EXACT.len() {
        table[FINE_EXACT[i]] -= FINE_EXCESS;
        i += 1;
    }
    let mut i = 0;
    while i < FINE_ODD.len() {
        let (k, excess) = FINE_ODD[i];
        table[k] = table[k] - FINE_EXCESS + excess;
        i += 1;
    }
    table
};

const FINE_EXCESS: u64 = 0x1_4770_0000;

const FINE_EXACT: [usize; 21] =
    [0, 1, 203, 216, 222, 233, 237, 238, 239, 243, 244, 245, 246, 248, 249, 250, 251, 252, 253, 254, 255];

const FINE_ODD: [(usize, u64); 23] = [
    (56, 0x1_3ed9_b9b0),
    (127, 0x3a4f_4285),
    (134, 0xd5e8_95a5),
    (181, 0xeee4_abc5),
    (184, 0x1_4340_b8bf),
    (188, 0x833e_b34b),
    (193, 0xe43e_ed13),
    (198, 0x95ad_3c32),
    (199, 0x9f2a_5b80),
    (200, 0xe2f4_5e65),
    (207, 0x1_2cba_cd37),
    (210, 0x1_144d_0710),
    (212, 0xdac5_961c),
    (225, 0xbf46_f5f9),
    (227, 0x5a42_d14a),
    (228, 0x9eac_5357),
    (229, 0x217c_fafc),
    (231, 0xd2d5_723c),
    (235, 0x1_21cb_06eb),
    (236, 0x1_3ac6_617a),
    (240, 0x9df6_bfdd),
    (241, 0xfa8d_3579),
    (247, 0x1595_5a58),
];

/// Returns `2^48 * log2(m)`, rounded down, for `m` in [1, 2) with 127 fractional bits.
///
/// Squaring a number doubles its logarithm, so each squaring yields one more binary digit.
const fn log2(m: u128) -> u64 {
    let mut m = m;
    let mut log = 0;
    let mut digit = 0;
    while digit < 48 {
        let (high, low) = (m >> 64, m & u64::MAX as u128);
        // The square with 126 fractional bits, up to the last bit or two.
        let square = high * high + ((high * low) >> 63);
        log <<= 1;
        if square >> 127 == 1 {
            log |= 1;
            m = square;
        } else {
            m = square << 1;
        }
        digit += 1;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_equal_those_of_peers() {
        // Expected: the kernel's net/ceph/crush/mapper.c with its crush_ln_table.h.
        assert_eq!(crush_ln(0), 0);
        assert_eq!(crush_ln(1), 0x1000_0000_0000);
        assert_eq!(crush_ln(12_345), 0xd977_cb0d_013d);
        assert_eq!(crush_ln(0x7fff), 0xf000_0000_0000);
        assert_eq!(crush_ln(0xffff), 0xffff_f000_0000);
        let all = (0..=0xffff).fold(0u64, |sum, u| sum.wrapping_mul(31).wrapping_add(crush_ln(u)));
        assert_eq!(all, 0x6308_5079_c1bf_34b4);
    }
}
