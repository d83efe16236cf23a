//! Shift of a CRC-32C register over zeros: its product with a power of x, modulo the polynomial.
//!
//! A polynomial is a number whose highest bit is the coefficient of x^0.

/// CRC-32C's polynomial without its highest power.
const POLYNOMIAL: u32 = 0x82F6_3B78;

const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// Smallest positive power of x that equals 1.
const ORDER: u64 = (1 << 31) - 1;

/// For each bit of a length, x to the power of the number of bits in that many bytes, less 32, because a product by the
/// processor's instructions (see [`by_instructions`]) has 32 too many.
const SHIFTS: [u32; usize::BITS as usize] = {
    let mut shifts = [0; usize::BITS as usize];
    let (mut at, mut bits) = (0, 8);
    while at < shifts.len() {
        shifts[at] = power(bits + ORDER - 32);
        bits = bits * 2 % ORDER;
        at += 1;
    }
    shifts
};

/// Returns the register after `len` zero bytes, without inversion.
pub(super) fn over(len: usize, register: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has both.
        return each(len, register, |one, other| unsafe { by_instructions(one, other) });
    }
    each(len, register, by_bits)
}

/// Multiplies by the shift of each bit of the length, using a product that adds x^32.
#[inline(always)]
fn each(mut len: usize, mut register: u32, product: impl Fn(u32, u32) -> u32) -> u32 {
    while len != 0 {
        register = product(register, SHIFTS[len.trailing_zeros() as usize]);
        len &= len - 1;
    }
    register
}

/// Returns the product times x^32.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn by_instructions(one: u32, other: u32) -> u32 {
    use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64};
    let factors = (_mm_cvtsi64_si128(i64::from(one)), _mm_cvtsi64_si128(i64::from(other)));
    let product = _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(factors.0, factors.1));
    // It has 63 bits, the highest of which is the coefficient of x^0.
    _mm_crc32_u64(0, (product as u64) << 1) as u32
}

/// Returns the product times x^32.
fn by_bits(one: u32, other: u32) -> u32 {
    const X32: u32 = power(32);
    multiply(multiply(one, other), X32)
}

/// Returns the product modulo the polynomial.
const fn multiply(one: u32, mut other: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if one & bit != 0 {
            product ^= other;
        }
        other = (other >> 1) ^ if other & 1 != 0 { POLYNOMIAL } else { 0 };
        bit >>= 1;
    }
    product
}

const fn power(mut exponent: u64) -> u32 {
    let (mut power, mut square) = (ONE, X);
    while exponent != 0 {
        if exponent & 1 != 0 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_register_shifts_as_over_zeros(register in any::<u32>(), len in 0..100_000_usize) {
            let zeros = vec![0; len];
            let expected = !::crc32c::crc32c_append(!register, &zeros);
            prop_assert_eq!(over(len, register), expected);
            prop_assert_eq!(each(len, register, by_bits), expected);
        }
    }

    #[test]
    fn lengths_of_more_than_32_bits_are_carried_too() {
        // A register recurs after that many bits, and so after that many bytes.
        let len = ORDER as usize;
        assert_eq!(over(len, 0x1234_5678), 0x1234_5678);
        assert_eq!(over(len << 20, 0x1234_5678), 0x1234_5678);
        assert_eq!(over((len << 20) + 5, 0x1234_5678), over(5, 0x1234_5678));
    }
}
