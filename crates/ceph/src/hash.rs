//! Hash functions of placement: of object names, and of CRUSH's inputs.
//!
//! All but the directory cache's rest on Robert Jenkins' 96-bit mix (burtleburtle.net/bob/hash/evahash.html).
//! Sources: ceph `src/common/ceph_hash.cc`, `src/crush/hash.c`.

#[inline(always)]
fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> 13);
    *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << 8);
    *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> 13);
    *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> 12);
    *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << 16);
    *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> 5);
    *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> 3);
    *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << 10);
    *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> 15);
}

/// Returns the hash of an object name in pools whose `object_hash` is rjenkins (2), as in all pools today.
pub fn rjenkins(name: &[u8]) -> u32 {
    const GOLDEN_RATIO: u32 = 0x9e37_79b9;
    let (mut a, mut b, mut c) = (GOLDEN_RATIO, GOLDEN_RATIO, 0u32);
    let (blocks, tail) = name.as_chunks::<12>();
    for block in blocks {
        let [w0, w1, w2] = words(block);
        a = a.wrapping_add(w0);
        b = b.wrapping_add(w1);
        c = c.wrapping_add(w2);
        mix(&mut a, &mut b, &mut c);
    }
    let mut last = [0; 12];
    last[..tail.len()].copy_from_slice(tail);
    let [w0, w1, w2] = words(&last);
    a = a.wrapping_add(w0);
    b = b.wrapping_add(w1);
    // The low byte of the last word is reserved for the length, modulo 2^32.
    c = c.wrapping_add(w2 << 8).wrapping_add(name.len() as u32);
    mix(&mut a, &mut b, &mut c);
    c
}

fn words(block: &[u8; 12]) -> [u32; 3] {
    let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    [word(0), word(4), word(8)]
}

/// Returns the hash of an object name in pools whose `object_hash` is the Linux directory cache's (1).
pub fn linux_dcache(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, &byte| {
        let byte = u32::from(byte);
        hash.wrapping_add(byte << 4).wrapping_add(byte >> 4).wrapping_mul(11)
    })
}

const CRUSH_SEED: u32 = 1_315_423_911;
const X: u32 = 231_232;
const Y: u32 = 1_232;

/// Returns CRUSH's hash of one word.
#[inline]
pub fn crush_hash32_1(mut a: u32) -> u32 {
    let mut hash = CRUSH_SEED ^ a;
    let (mut b, mut x, mut y) = (a, X, Y);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    hash
}

/// Returns CRUSH's hash of two words.
#[inline]
pub fn crush_hash32_2(mut a: u32, mut b: u32) -> u32 {
    let mut hash = CRUSH_SEED ^ a ^ b;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut x, &mut a, &mut hash);
    mix(&mut b, &mut y, &mut hash);
    hash
}

/// Returns CRUSH's hash of three words.
#[inline(always)] // Most of CRUSH's time is spent here; in a loop the compiler vectorizes it.
pub fn crush_hash32_3(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    let mut hash = CRUSH_SEED ^ a ^ b ^ c;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    hash
}

/// Returns CRUSH's hash of four words.
#[inline]
pub fn crush_hash32_4(mut a: u32, mut b: u32, mut c: u32, mut d: u32) -> u32 {
    let mut hash = CRUSH_SEED ^ a ^ b ^ c ^ d;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut a, &mut x, &mut hash);
    mix(&mut y, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut d, &mut hash);
    hash
}

/// Returns CRUSH's hash of five words.
#[inline]
pub fn crush_hash32_5(mut a: u32, mut b: u32, mut c: u32, mut d: u32, mut e: u32) -> u32 {
    let mut hash = CRUSH_SEED ^ a ^ b ^ c ^ d ^ e;
    let (mut x, mut y) = (X, Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut e, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    mix(&mut d, &mut x, &mut hash);
    mix(&mut y, &mut e, &mut hash);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values: the kernel's net/ceph/ceph_hash.c and net/ceph/crush/hash.c.

    #[test]
    fn object_names_hash_as_by_peers() {
        let cases: [(&[u8], u32, u32); 6] = [
            (b"", 0xbd49_d10d, 0),
            (b"a", 0x29ee_c818, 0x42f2),
            (b"rbd_directory", 0x30a9_8c1c, 0x9569_da2c),
            (b"hello world", 0x1aa9_19e6, 0x1f2e_3c54),
            (b"rbd_data.10226b8b4567.0000000000000003", 0xd96f_3406, 0xaa02_3f65),
            (b"abcdefghijklmnopqrstuvwxyz", 0xc52f_cee8, 0xfacb_dc8f),
        ];
        for (name, jenkins, linux) in cases {
            assert_eq!(rjenkins(name), jenkins, "{}", name.escape_ascii());
            assert_eq!(linux_dcache(name), linux, "{}", name.escape_ascii());
        }
        assert_eq!(linux_dcache(b"\xff\x80\xc3"), 5_733_673, "bytes are unsigned");
    }

    #[test]
    fn words_hash_as_by_peers() {
        let (a, b) = (0x1234_5678, -3i32 as u32);
        assert_eq!(crush_hash32_1(a), 0x8443_a4e2);
        assert_eq!(crush_hash32_2(a, b), 0x5bee_468f);
        assert_eq!(crush_hash32_3(a, b, 7), 0xb772_0019);
        assert_eq!(crush_hash32_4(a, b, 7, 99), 0xd9ea_6f10);
        assert_eq!(crush_hash32_5(a, b, 7, 99, u32::MAX), 0xc3ab_917c);
    }
}
