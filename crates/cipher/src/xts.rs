//! AES-XTS for disk sectors (IEEE 1619), with the sector number as the tweak ("plain64" of dm-crypt).
//!
//! AWS-LC supports it for 256-bit keys. For 128-bit keys it is built from AES blocks, several at a time.

use crate::context::{Cipher, Context, Direction};
use std::fmt;
use thiserror::Error;

const BLOCK: usize = 16;
/// Number of bytes whose tweaks are computed at a time.
const RUN: usize = 512;

/// Unusable key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The key does not have the length of two AES keys.
    #[error("an AES-XTS key must have 32 or 64 bytes, not {0}")]
    Length(usize),
    /// Both halves are equal, which makes the cipher weak.
    #[error("the two halves of an AES-XTS key must differ")]
    Weak,
}

/// Encrypts and decrypts sectors with one key, which is wiped when dropped.
pub struct Xts(Keys);

enum Keys {
    /// AWS-LC's own implementation.
    Whole { encrypt: Context, decrypt: Context },
    /// Built from AES blocks.
    Blocks { encrypt: Context, decrypt: Context, tweak: Context },
}

impl Xts {
    /// Creates a cipher from a key of 32 bytes (AES-128) or 64 bytes (AES-256).
    pub fn new(key: &[u8]) -> Result<Self, KeyError> {
        if !matches!(key.len(), 32 | 64) {
            return Err(KeyError::Length(key.len()));
        }
        let (data, tweak) = key.split_at(key.len() / 2);
        if data == tweak {
            return Err(KeyError::Weak);
        }
        if key.len() == 64 {
            let context = |direction| Context::new(Cipher::Aes256Xts, direction, key).ok_or(KeyError::Weak);
            let (encrypt, decrypt) = (context(Direction::Encrypt)?, context(Direction::Decrypt)?);
            return Ok(Self(Keys::Whole { encrypt, decrypt }));
        }
        Self::of_blocks(Cipher::Aes128Ecb, data, tweak)
    }

    fn of_blocks(cipher: Cipher, data: &[u8], tweak: &[u8]) -> Result<Self, KeyError> {
        let context = |direction, key| Context::new(cipher, direction, key).ok_or(KeyError::Weak);
        Ok(Self(Keys::Blocks {
            encrypt: context(Direction::Encrypt, data)?,
            decrypt: context(Direction::Decrypt, data)?,
            tweak: context(Direction::Encrypt, tweak)?,
        }))
    }

    /// Encrypts a sector in place.
    ///
    /// # Panics
    /// If it does not consist of whole blocks of 16 bytes.
    #[inline]
    pub fn encrypt(&mut self, number: u64, sector: &mut [u8]) {
        check(sector);
        match &mut self.0 {
            Keys::Whole { encrypt, .. } => whole(encrypt, number, sector),
            Keys::Blocks { encrypt, tweak, .. } => blocks(encrypt, tweak, number, sector),
        }
    }

    /// Decrypts a sector in place.
    ///
    /// # Panics
    /// If it does not consist of whole blocks of 16 bytes.
    #[inline]
    pub fn decrypt(&mut self, number: u64, sector: &mut [u8]) {
        check(sector);
        match &mut self.0 {
            Keys::Whole { decrypt, .. } => whole(decrypt, number, sector),
            Keys::Blocks { decrypt, tweak, .. } => blocks(decrypt, tweak, number, sector),
        }
    }
}

impl fmt::Debug for Xts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Xts")
    }
}

fn check(sector: &[u8]) {
    assert!(!sector.is_empty() && sector.len().is_multiple_of(BLOCK), "a sector is made of whole blocks");
}

/// Returns the tweak input of a sector: its number in little endian, padded with zeros.
fn first_tweak(number: u64) -> [u8; BLOCK] {
    u128::from(number).to_le_bytes()
}

#[inline]
fn whole(context: &mut Context, number: u64, sector: &mut [u8]) {
    context.begin(&first_tweak(number));
    context.update_in_place(sector);
}

fn blocks(data: &mut Context, tweak: &mut Context, number: u64, sector: &mut [u8]) {
    let mut first = first_tweak(number);
    tweak.update_in_place(&mut first);
    let mut next = u128::from_le_bytes(first);
    let mut tweaks = [0; RUN];
    for run in sector.chunks_mut(RUN) {
        let tweaks = &mut tweaks[..run.len()];
        for place in tweaks.chunks_exact_mut(BLOCK) {
            place.copy_from_slice(&next.to_le_bytes());
            next = doubled(next);
        }
        mix(run, tweaks);
        data.update_in_place(run);
        mix(run, tweaks);
    }
}

/// Multiplies by x in the field of IEEE 1619, 5.2: x^128 + x^7 + x^2 + x + 1.
fn doubled(tweak: u128) -> u128 {
    (tweak << 1) ^ (0x87 * (tweak >> 127))
}

fn mix(bytes: &mut [u8], with: &[u8]) {
    bytes.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    /// IEEE 1619-2007, appendix B, vectors 2 and 3.
    const EXAMPLES: [(&str, u64, &str, &str); 2] = [
        (
            "1111111111111111111111111111111122222222222222222222222222222222",
            0x33_3333_3333,
            "4444444444444444444444444444444444444444444444444444444444444444",
            "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
        ),
        (
            "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222",
            0x33_3333_3333,
            "4444444444444444444444444444444444444444444444444444444444444444",
            "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89",
        ),
    ];

    #[test]
    fn the_examples_of_the_standard_match() {
        for (key, number, plain, sealed) in EXAMPLES {
            let mut xts = Xts::new(&hex(key)).unwrap();
            let mut bytes = hex(plain);
            xts.encrypt(number, &mut bytes);
            assert_eq!(bytes, hex(sealed));
            xts.decrypt(number, &mut bytes);
            assert_eq!(bytes, hex(plain));
        }
    }

    #[test]
    fn the_first_blocks_of_the_long_examples_match() {
        // IEEE 1619-2007, vectors 4 (AES-128, sector 0) and 10 (AES-256, sector 0xff): 512 ascending bytes.
        let plain: Vec<u8> = (0..512).map(|i| i as u8).collect();
        let short = "2718281828459045235360287471352631415926535897932384626433832795";
        let long = "27182818284590452353602874713526624977572470936999595749669676273141592653589793\
                    238462643383279502884197169399375105820974944592";
        for (key, number, sealed) in [
            (short, 0, "27a7479befa1d476489f308cd4cfa6e2a96e4bbe3208ff25287dd3819616e89c"),
            (long, 0xff, "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b"),
        ] {
            let mut xts = Xts::new(&hex(key)).unwrap();
            let mut bytes = plain.clone();
            xts.encrypt(number, &mut bytes);
            assert_eq!(bytes[..32], hex(sealed));
            xts.decrypt(number, &mut bytes);
            assert_eq!(bytes, plain);
        }
    }

    #[test]
    fn the_block_implementation_matches_the_whole_cipher() {
        let key: Vec<u8> = (0..64).map(|i| i * 3).collect();
        let mut whole = Xts::new(&key).unwrap();
        let mut blocks = Xts::of_blocks(Cipher::Aes256Ecb, &key[..32], &key[32..]).unwrap();
        for (number, len) in [(0, 512), (7, 4096), (1 << 40, 16), (u64::MAX, 528)] {
            let plain: Vec<u8> = (0..len).map(|i: u32| (i * 7) as u8).collect();
            let (mut one, mut other) = (plain.clone(), plain.clone());
            whole.encrypt(number, &mut one);
            blocks.encrypt(number, &mut other);
            assert_eq!(one, other);
            blocks.decrypt(number, &mut one);
            assert_eq!(one, plain);
        }
    }

    #[test]
    fn unusable_keys_are_refused() {
        assert_eq!(Xts::new(&[1; 48]).unwrap_err(), KeyError::Length(48));
        assert_eq!(Xts::new(&[1; 32]).unwrap_err(), KeyError::Weak);
        assert_eq!(Xts::new(&[1; 64]).unwrap_err(), KeyError::Weak);
    }

    #[test]
    fn debug_output_hides_the_key() {
        let key: Vec<u8> = (0..64).collect();
        assert_eq!(format!("{:?}", Xts::new(&key).unwrap()), "Xts");
    }
}
