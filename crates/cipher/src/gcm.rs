//! AES-128-GCM that processes a record piece by piece.
//!
//! A message consists of many pieces, sent and received: header, front, the segments of its payload. The AEAD crates
//! for Rust require contiguous records, which would cost a copy of every received payload. This module wraps AWS-LC's
//! incremental interface, in place or from one buffer to another, and nothing else.

use crate::context::{self, Cipher, Context, Direction};
use thiserror::Error;

/// Key length in bytes.
pub const KEY_LEN: usize = 16;
/// Nonce length in bytes.
pub const NONCE_LEN: usize = 12;
/// Tag length in bytes.
pub const TAG_LEN: usize = context::TAG_LEN;

const ANY_KEY: &str = "AWS-LC accepts any AES-GCM key";

/// The record was not sealed with this key and nonce, or is corrupted. Its opened bytes must not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the record is not authentic")]
pub struct Forged;

/// Seals records: [`begin`](Self::begin), then the pieces, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct Sealer(Context);

impl Sealer {
    /// Creates a sealer with this key.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        Self(Context::new(Cipher::Aes128Gcm, Direction::Encrypt, key).expect(ANY_KEY))
    }

    /// Begins a record. No two records may have the same nonce.
    #[inline]
    pub fn begin(&mut self, nonce: &[u8; NONCE_LEN]) {
        self.0.begin(nonce);
    }

    /// Seals the next piece in place.
    #[inline]
    pub fn seal_in_place(&mut self, piece: &mut [u8]) {
        self.0.update_in_place(piece);
    }

    /// Seals the next piece into `to`.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn seal(&mut self, piece: &[u8], to: &mut [u8]) {
        self.0.update(piece, to);
    }

    /// Ends the record and returns its tag.
    #[inline]
    pub fn finish(&mut self) -> [u8; TAG_LEN] {
        self.0.tag()
    }
}

/// Opens records: [`begin`](Self::begin), then the pieces, then [`finish`](Self::finish). Opened bytes may be used only
/// after it succeeds.
#[derive(Debug)]
pub struct Opener(Context);

impl Opener {
    /// Creates an opener with this key.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        Self(Context::new(Cipher::Aes128Gcm, Direction::Decrypt, key).expect(ANY_KEY))
    }

    /// Begins a record.
    #[inline]
    pub fn begin(&mut self, nonce: &[u8; NONCE_LEN]) {
        self.0.begin(nonce);
    }

    /// Opens the next piece in place.
    #[inline]
    pub fn open_in_place(&mut self, piece: &mut [u8]) {
        self.0.update_in_place(piece);
    }

    /// Opens the next piece into `to`.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn open(&mut self, piece: &[u8], to: &mut [u8]) {
        self.0.update(piece, to);
    }

    /// Ends the record.
    ///
    /// # Errors
    /// [`Forged`] if the tag does not match.
    #[inline]
    pub fn finish(&mut self, tag: &[u8; TAG_LEN]) -> Result<(), Forged> {
        if self.0.check(tag) { Ok(()) } else { Err(Forged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    #[test]
    fn the_examples_of_the_specification_match() {
        // McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, test cases 1 to 3.
        let long = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                    1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
        let sealed = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                      21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985";
        for (key, nonce, plain, cipher, tag) in [
            (
                "00000000000000000000000000000000",
                "000000000000000000000000",
                "",
                "",
                "58e2fccefa7e3061367f1d57a4e7455a",
            ),
            (
                "00000000000000000000000000000000",
                "000000000000000000000000",
                "00000000000000000000000000000000",
                "0388dace60b6a392f328c2b971b2fe78",
                "ab6e47d42cec13bdf53a67b21257bddf",
            ),
            (
                "feffe9928665731c6d6a8f9467308308",
                "cafebabefacedbaddecaf888",
                long,
                sealed,
                "4d5c2af327cd64a62cf35abd2ba6fab4",
            ),
        ] {
            let (key, nonce) = (hex(key).try_into().unwrap(), hex(nonce).try_into().unwrap());
            let mut bytes = hex(plain);
            let mut sealer = Sealer::new(&key);
            sealer.begin(&nonce);
            sealer.seal_in_place(&mut bytes);
            assert_eq!(sealer.finish().to_vec(), hex(tag));
            assert_eq!(bytes, hex(cipher));
            let mut opener = Opener::new(&key);
            opener.begin(&nonce);
            opener.open_in_place(&mut bytes);
            assert_eq!(opener.finish(&hex(tag).try_into().unwrap()), Ok(()));
            assert_eq!(bytes, hex(plain));
        }
    }

    #[test]
    fn pieces_of_any_length_make_the_same_record() {
        let plain: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
        let (mut sealer, mut opener) = (Sealer::new(&[1; 16]), Opener::new(&[1; 16]));
        let mut whole = plain.clone();
        sealer.begin(&[2; 12]);
        sealer.seal_in_place(&mut whole);
        let tag = sealer.finish();
        for step in [1, 3, 15, 16, 17, 100, 4096] {
            let mut pieces = vec![0; plain.len()];
            sealer.begin(&[2; 12]);
            plain.chunks(step).zip(pieces.chunks_mut(step)).for_each(|(from, to)| sealer.seal(from, to));
            assert_eq!((&pieces, sealer.finish()), (&whole, tag));
            opener.begin(&[2; 12]);
            pieces.chunks_mut(step).for_each(|piece| opener.open_in_place(piece));
            assert_eq!(opener.finish(&tag), Ok(()));
            assert_eq!(pieces, plain);
        }
    }

    #[test]
    fn a_corrupt_record_is_refused_and_the_next_one_accepted() {
        let (mut sealer, mut opener) = (Sealer::new(&[1; 16]), Opener::new(&[1; 16]));
        let mut sealed = [7; 40];
        sealer.begin(&[3; 12]);
        sealer.seal_in_place(&mut sealed);
        let tag = sealer.finish();
        for at in 0..sealed.len() + tag.len() {
            let (mut bytes, mut tag) = (sealed, tag);
            match at.checked_sub(sealed.len()) {
                Some(at) => tag[at] ^= 1,
                None => bytes[at] ^= 1,
            }
            opener.begin(&[3; 12]);
            opener.open_in_place(&mut bytes);
            assert_eq!(opener.finish(&tag), Err(Forged));
        }
        opener.begin(&[4; 12]);
        opener.open_in_place(&mut sealed);
        assert_eq!(opener.finish(&tag), Err(Forged), "the nonce differs");
    }

    #[test]
    fn debug_output_hides_the_key() {
        assert_eq!(format!("{:?}", Sealer::new(&[7; 16])), "Sealer(Context)");
    }
}
