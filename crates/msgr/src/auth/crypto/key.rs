//! Keys, as stored in keyrings and carried in tickets.

use super::cipher::{self, AES_KEY_LEN, AES256K_KEY_LEN, Plain};
use super::entropy::Entropy;
use super::secret::Secret;
use crate::auth::error::Error;
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use aws_lc_rs::hmac;
use base64ct::{Base64, Encoding as _};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use zeroize::Zeroizing;

/// Cipher that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-CBC (`CEPH_CRYPTO_AES`): "aes".
    Aes,
    /// AES-256-CTS with HMAC-SHA-384-192 (`CEPH_CRYPTO_AES256KRB5`), since Ceph 20: "aes256k".
    Aes256k,
}

impl Cipher {
    fn from_wire(kind: u16) -> Option<Self> {
        match kind {
            1 => Some(Self::Aes),
            2 => Some(Self::Aes256k),
            _ => None,
        }
    }

    fn to_wire(self) -> u16 {
        match self {
            Self::Aes => 1,
            Self::Aes256k => 2,
        }
    }

    fn key_len(self) -> usize {
        match self {
            Self::Aes => AES_KEY_LEN,
            Self::Aes256k => AES256K_KEY_LEN,
        }
    }
}

/// Purpose of sealed data: "aes256k" derives a key for each, "aes" ignores it (ceph `src/auth/cephx/CephxProtocol.h`,
/// `CEPHX_KEY_USAGE_*`; linux `net/ceph/auth_x_protocol.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Usage {
    /// Secret of a connection to a monitor.
    ConnectionSecret = 0x03,
    /// Session key of a ticket, for the client.
    TicketSessionKey = 0x04,
    /// Ticket that replaces another one.
    TicketBlob = 0x05,
    /// Authorizer.
    Authorize = 0x10,
    /// A service's challenge.
    AuthorizeChallenge = 0x11,
    /// A service's answer to an authorizer.
    AuthorizeReply = 0x12,
    /// Keys of a service, for its daemons.
    RotatingSecret = 0x20,
    /// Content of a ticket, for the service.
    TicketInfo = 0x30,
}

/// Cryptographic key (`CryptoKey`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    cipher: Cipher,
    /// Creation time.
    pub created: Utime,
    secret: Secret,
}

impl Key {
    /// Generates a key.
    pub fn generate(cipher: Cipher, created: Utime, entropy: &mut Entropy) -> Self {
        Self { cipher, created, secret: entropy.secret(cipher.key_len()) }
    }

    /// Parses a key in the form used in keyrings.
    pub fn from_base64(text: &str) -> Result<Self, DecodeError> {
        // Invalid base64 holds no key, so the position does not matter.
        let bytes = Base64::decode_vec(text.trim()).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| DecodeError::Invalid { what: "a key in base64", value: 0 })?;
        Self::from_bytes(&bytes)
    }

    /// Returns the key in the form used in keyrings. This reveals the whole secret.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(Base64::encode_string(&Zeroizing::new(self.to_bytes())))
    }

    /// Returns the cipher that the key is for.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    pub(in crate::auth) fn encrypt(&self, usage: Usage, plain: &[u8], entropy: &mut Entropy) -> Vec<u8> {
        let key = &self.secret.expose()[..self.cipher.key_len()];
        match self.cipher {
            Cipher::Aes => cipher::aes_encrypt(key, plain),
            Cipher::Aes256k => {
                let mut confounder = [0; 16];
                entropy.fill(&mut confounder);
                cipher::aes256k_encrypt(key, usage as u32, confounder, plain)
            }
        }
    }

    pub(in crate::auth) fn decrypt(&self, usage: Usage, sealed: &[u8]) -> Option<Plain> {
        let key = &self.secret.expose()[..self.cipher.key_len()];
        match self.cipher {
            Cipher::Aes => cipher::aes_decrypt(key, sealed),
            Cipher::Aes256k => cipher::aes256k_decrypt(key, usage as u32, sealed),
        }
    }

    /// Signs a message in version 1 of the messenger: seals or hashes the numbers in `block` and folds the result
    /// (CephxSessionHandler.cc, `_calc_signature`).
    pub(crate) fn sign_message(&self, block: &[u8; 32]) -> u64 {
        match self.cipher {
            // The trailing padding block is ignored.
            Cipher::Aes => {
                fold(&cipher::aes_encrypt(&self.secret.expose()[..AES_KEY_LEN], block)[..block.len()])
            }
            // This cipher's output differs each time.
            Cipher::Aes256k => fold(&self.sign(&[block])),
        }
    }

    /// Returns the HMAC-SHA256 of the concatenated `parts`.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.expose());
        let mut context = hmac::Context::with_key(&key);
        parts.iter().for_each(|part| context.update(part));
        let mut signature = [0; 32];
        signature.copy_from_slice(context.sign().as_ref());
        signature
    }
}

impl Decode for Key {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let kind = r.u16("key type")?;
        let created = Utime::decode(r)?;
        let len = r.u16("key length")?;
        let secret = r.take(len.into(), "key")?;
        let cipher = Cipher::from_wire(kind);
        let cipher = cipher.ok_or(DecodeError::Invalid { what: "key type", value: kind.into() })?;
        // Ceph accepts longer keys too and ignores the rest (Crypto.cc, validate_secret); this limit is that of linux
        // net/ceph/crypto.h, CEPH_MAX_KEY_LEN.
        if !(cipher.key_len()..=32).contains(&secret.len()) {
            return Err(DecodeError::Invalid { what: "key length", value: len.into() });
        }
        Ok(Self { cipher, created, secret: Secret::new(secret.to_vec()) })
    }
}

impl Encode for Key {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.cipher.to_wire());
        self.created.encode(w);
        w.u16(self.secret.len() as u16);
        w.put(self.secret.expose());
    }
}

pub(in crate::auth) fn fold(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |folded, word| folded ^ u64::from_le_bytes(*word))
}

pub(in crate::auth) fn opened(plain: Option<Plain>, what: &'static str) -> Result<Plain, Error> {
    plain.ok_or(Error::Forged { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_those_of_ceph_authtool() {
        // ceph-authtool --gen-print-key, 16.2.15.
        let text = "AQCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw==";
        let key = Key::from_base64(text).unwrap();
        assert_eq!(key.cipher(), Cipher::Aes);
        assert_eq!(*key.to_base64(), text);
        assert!(!format!("{key:?}").contains("Awe"));
    }

    #[test]
    fn messages_are_signed_with_keys_of_both_ciphers() {
        // First computed with `openssl enc -aes-128-cbc`, second with Python's hmac and SHA-256; both folded by hand.
        for (key, signature) in [
            ("AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==", 0x0843_a2c0_c688_1618),
            ("AgAAAAAAAAAAACAAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", 0x2c0d_2db0_e565_2899),
        ] {
            let key = Key::from_base64(key).unwrap();
            let block = std::array::from_fn(|at| 100 + at as u8);
            assert_eq!(key.sign_message(&block), signature);
        }
    }

    #[test]
    fn invalid_keys_are_refused() {
        for text in ["", "AQCgVgJr", "not base64!", "AwCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw=="] {
            assert!(Key::from_base64(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_new_key_survives_base64() {
        let mut entropy = Entropy::new([1; 32]);
        for cipher in [Cipher::Aes, Cipher::Aes256k] {
            let key = Key::generate(cipher, Utime { sec: 5, nsec: 6 }, &mut entropy);
            assert_eq!(Key::from_base64(&key.to_base64()), Ok(key));
        }
    }
}
