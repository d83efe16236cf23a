//! Hash functions, and key derivation from passphrases by PBKDF2 (RFC 8018).

use aws_lc_sys as lc;
use std::ptr;

/// Maximum digest length in bytes.
pub const MAX_DIGEST: usize = 64;

/// Hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1, only for old headers.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Returns the function with this name in LUKS headers.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Returns the digest length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a digest is never empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn evp(self) -> *const lc::EVP_MD {
        match self {
            // SAFETY: it has no arguments and returns a static.
            Self::Sha1 => unsafe { lc::EVP_sha1() },
            // SAFETY: as above.
            Self::Sha256 => unsafe { lc::EVP_sha256() },
            // SAFETY: as above.
            Self::Sha512 => unsafe { lc::EVP_sha512() },
        }
    }

    /// Returns the digest of `bytes` in the first [`len`](Self::len) bytes.
    pub fn digest(self, bytes: &[u8]) -> [u8; MAX_DIGEST] {
        let mut digest = [0; MAX_DIGEST];
        let mut len = 0;
        // SAFETY: `bytes` is valid for reads of its length, and no digest exceeds `digest`.
        let done = unsafe {
            lc::EVP_Digest(
                bytes.as_ptr().cast(),
                bytes.len(),
                digest.as_mut_ptr(),
                &mut len,
                self.evp(),
                ptr::null_mut(),
            )
        };
        assert_eq!((done, len as usize), (1, self.len()), "AWS-LC hashes any bytes");
        digest
    }

    /// Derives `key` from a passphrase. Takes about half a microsecond per iteration for each digest length of `key`.
    ///
    /// # Panics
    /// If `iterations` is 0.
    pub fn pbkdf2(self, passphrase: &[u8], salt: &[u8], iterations: u32, key: &mut [u8]) {
        assert_ne!(iterations, 0, "at least one iteration is required");
        // SAFETY: all slices are valid for their lengths, `key` for writing.
        let done = unsafe {
            lc::PKCS5_PBKDF2_HMAC(
                passphrase.as_ptr().cast(),
                passphrase.len(),
                salt.as_ptr(),
                salt.len(),
                iterations,
                self.evp(),
                key.len(),
                key.as_mut_ptr(),
            )
        };
        assert_eq!(done, 1, "AWS-LC derives keys of any length");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    #[test]
    fn the_examples_of_the_specifications_match() {
        // FIPS 180-2, appendices A, B and C.
        assert_eq!(Hash::Sha1.digest(b"abc")[..20], hex("a9993e364706816aba3e25717850c26c9cd0d89d"));
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Hash::Sha256.digest(b"abc")[..32], hex(sha256));
        // RFC 6070, and RFC 7914, section 11.
        let mut key = [0; 20];
        Hash::Sha1.pbkdf2(b"password", b"salt", 4096, &mut key);
        assert_eq!(key.to_vec(), hex("4b007901b765489abead49d926f721d065a429c1"));
        let mut key = [0; 64];
        Hash::Sha256.pbkdf2(b"Password", b"NaCl", 80_000, &mut key);
        let expected = "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56\
                        a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d";
        assert_eq!(key.to_vec(), hex(expected));
    }

    #[test]
    fn names_map_to_functions() {
        for (name, len) in [("sha1", 20), ("sha256", 32), ("sha512", 64)] {
            assert_eq!(Hash::named(name).map(Hash::len), Some(len));
        }
        assert_eq!(Hash::named("whirlpool"), None);
    }
}
