//! The two ciphers of keys: cephx's original AES-128-CBC, and AES-256 with ciphertext stealing and an HMAC.
//!
//! Source: ceph `src/auth/Crypto.cc` (`CryptoAES`, `CryptoAES256KRB5`); RFC 8009 for the second.

use aws_lc_rs::cipher::{
    AES_128, AES_256, Algorithm, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

const BLOCK: usize = 16;
pub(in crate::auth) const AES_KEY_LEN: usize = 16;
pub(in crate::auth) const AES256K_KEY_LEN: usize = 32;
/// Size of the HMAC appended by the second cipher: 192 bits of a SHA-384, in bytes.
const HASH_LEN: usize = 24;
/// Fixed initialization vector of the first cipher (`CEPH_AES_IV`).
const AES_IV: [u8; BLOCK] = *b"cephsageyudagreg";

/// Plaintext, wiped when dropped.
pub(in crate::auth) type Plain = Zeroizing<Vec<u8>>;

const KEY_FITS: &str = "key lengths are checked before use";

fn cbc_encrypt(algorithm: &'static Algorithm, key: &[u8], iv: [u8; BLOCK], blocks: &mut [u8]) {
    let key = UnboundCipherKey::new(algorithm, key).and_then(EncryptingKey::cbc).expect(KEY_FITS);
    key.less_safe_encrypt(blocks, EncryptionContext::Iv128(FixedLength::from(iv)))
        .expect("whole blocks can be encrypted");
}

fn cbc_decrypt(algorithm: &'static Algorithm, key: &[u8], iv: [u8; BLOCK], blocks: &mut [u8]) {
    let key = UnboundCipherKey::new(algorithm, key).and_then(DecryptingKey::cbc).expect(KEY_FITS);
    key.decrypt(blocks, DecryptionContext::Iv128(FixedLength::from(iv)))
        .expect("whole blocks can be decrypted");
}

/// Encrypts with AES-128-CBC, the fixed initialization vector and PKCS #7 padding.
pub(in crate::auth) fn aes_encrypt(key: &[u8], plain: &[u8]) -> Vec<u8> {
    let padding = BLOCK - plain.len() % BLOCK;
    let mut bytes = Vec::with_capacity(plain.len() + padding);
    bytes.extend_from_slice(plain);
    bytes.resize(plain.len() + padding, padding as u8);
    cbc_encrypt(&AES_128, key, AES_IV, &mut bytes);
    bytes
}

/// Decrypts the output of [`aes_encrypt`]. Returns `None` if it cannot have been made with this key.
///
/// Valid padding does not prove that the key is right: the magic number in the sealed data does. Invalid padding is
/// therefore an error like any other, and the peer does not learn about it (Crypto.cc, CryptoAESKeyHandler::decrypt).
pub(in crate::auth) fn aes_decrypt(key: &[u8], sealed: &[u8]) -> Option<Plain> {
    if sealed.is_empty() || !sealed.len().is_multiple_of(BLOCK) {
        return None;
    }
    let mut bytes = Zeroizing::new(sealed.to_vec());
    cbc_decrypt(&AES_128, key, AES_IV, &mut bytes);
    let padding = bytes.last().copied().map_or(0, usize::from);
    if !(1..=BLOCK).contains(&padding) {
        return None;
    }
    let len = bytes.len() - padding;
    bytes.truncate(len);
    Some(bytes)
}

/// Derives a key for one usage (RFC 8009, section 5: KDF-HMAC-SHA2 with SHA-384).
fn derive(key: &[u8], usage: u32, kind: u8, len: usize) -> Plain {
    let mut input = Vec::with_capacity(14);
    input.extend_from_slice(&1u32.to_be_bytes());
    input.extend_from_slice(&usage.to_be_bytes());
    input.extend_from_slice(&[kind, 0]);
    input.extend_from_slice(&(len as u32 * 8).to_be_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA384, key);
    Zeroizing::new(hmac::sign(&key, &input).as_ref()[..len].to_vec())
}

/// HMAC of the initialization vector, all zeros, and the ciphertext.
fn hash(key: &[u8], usage: u32, encrypted: &[u8]) -> [u8; HASH_LEN] {
    let key = hmac::Key::new(hmac::HMAC_SHA384, &derive(key, usage, 0x55, HASH_LEN));
    let mut context = hmac::Context::with_key(&key);
    context.update(&[0; BLOCK]);
    context.update(encrypted);
    let mut hash = [0; HASH_LEN];
    hash.copy_from_slice(&context.sign().as_ref()[..HASH_LEN]);
    hash
}

/// Encrypts with AES-256-CBC with ciphertext stealing (variant CS3), and appends an HMAC.
pub(in crate::auth) fn aes256k_encrypt(
    key: &[u8],
    usage: u32,
    confounder: [u8; BLOCK],
    plain: &[u8],
) -> Vec<u8> {
    let len = BLOCK + plain.len();
    let mut bytes = Vec::with_capacity(len.next_multiple_of(BLOCK) + HASH_LEN);
    bytes.extend_from_slice(&confounder);
    bytes.extend_from_slice(plain);
    bytes.resize(len.next_multiple_of(BLOCK), 0);
    cbc_encrypt(&AES_256, &derive(key, usage, 0xaa, AES256K_KEY_LEN), [0; BLOCK], &mut bytes);
    if bytes.len() > BLOCK {
        // Swap the last two blocks; the one that becomes last loses its padding.
        let last = bytes.len() - BLOCK;
        let (before, last) = bytes.split_at_mut(last);
        before.last_chunk_mut::<BLOCK>().expect("there are two blocks").swap_with_slice(last);
    }
    bytes.truncate(len);
    let hash = hash(key, usage, &bytes);
    bytes.extend_from_slice(&hash);
    bytes
}

/// Decrypts the output of [`aes256k_encrypt`]. Returns `None` if it was made with another key or usage, or is
/// corrupted.
pub(in crate::auth) fn aes256k_decrypt(key: &[u8], usage: u32, sealed: &[u8]) -> Option<Plain> {
    let (encrypted, found) = sealed.split_last_chunk::<HASH_LEN>()?;
    if encrypted.len() < BLOCK || verify_slices_are_equal(&hash(key, usage, encrypted), found).is_err() {
        return None;
    }
    let key = derive(key, usage, 0xaa, AES256K_KEY_LEN);
    let len = encrypted.len();
    let mut bytes = Zeroizing::new(encrypted.to_vec());
    if len > BLOCK {
        let tail = (len - 1) % BLOCK + 1;
        let at = len - tail - BLOCK;
        // The second to last block was encrypted last. Its bytes past the tail encrypt the padding, so its decrypted
        // end is the stolen end of the previous block.
        let mut stolen = Zeroizing::new(bytes[at..at + BLOCK].to_vec());
        cbc_decrypt(&AES_256, &key, [0; BLOCK], &mut stolen);
        let mut previous = [0; BLOCK];
        previous[..tail].copy_from_slice(&bytes[at + BLOCK..]);
        previous[tail..].copy_from_slice(&stolen[tail..]);
        let last: [u8; BLOCK] = bytes[at..at + BLOCK].try_into().ok()?;
        bytes.truncate(at);
        bytes.extend_from_slice(&previous);
        bytes.extend_from_slice(&last);
    }
    cbc_decrypt(&AES_256, &key, [0; BLOCK], &mut bytes);
    bytes.truncate(len);
    bytes.drain(..BLOCK);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn the_new_cipher_matches_the_samples_of_rfc_8009() {
        // RFC 8009, appendix A, "Sample encryptions", aes256-cts-hmac-sha384-192; the key usage is 2.
        let key = hex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52");
        for (plain, confounder, sealed) in [
            (
                "",
                "F764E9FA15C276478B2C7D0C4E5F58E4",
                "41F53FA5BFE7026D91FAF9BE959195A058707273A96A40F0A01960621AC612748B9BBFBE7EB4CE3C",
            ),
            (
                "000102030405",
                "B80D3251C1F6471494256FFE712D0B9A",
                "4ED7B37C2BCAC8F74F23C1CF07E62BC7B75FB3F637B9F559C7F664F69EAB7B6092237526EA0D1F61CB20D69D10F2",
            ),
            (
                "000102030405060708090A0B0C0D0E0F",
                "53BF8A0D105265D4E276428624CE5E63",
                "BC47FFEC7998EB91E8115CF8D19DAC4BBBE2E163E87DD37F49BECA92027764F68CF51F14D798C2273F35DF574D1F932E40C4FF255B36A266",
            ),
            (
                "000102030405060708090A0B0C0D0E0F1011121314",
                "763E65367E864F02F55153C7E3B58AF1",
                "40013E2DF58E8751957D2878BCD2D6FE101CCFD556CB1EAE79DB3C3EE86429F2B2A602AC86FEF6ECB647D6295FAE077A1FEB517508D2C16B4192E01F62",
            ),
        ] {
            let (plain, sealed) = (hex(plain), hex(sealed));
            let confounder = hex(confounder).try_into().unwrap();
            assert_eq!(aes256k_encrypt(&key, 2, confounder, &plain), sealed);
            assert_eq!(aes256k_decrypt(&key, 2, &sealed).as_deref(), Some(&plain));
            assert_eq!(aes256k_decrypt(&key, 3, &sealed), None);
            for at in 0..sealed.len() {
                let mut damaged = sealed.clone();
                damaged[at] ^= 1;
                assert_eq!(aes256k_decrypt(&key, 2, &damaged), None);
            }
        }
    }

    #[test]
    fn both_ciphers_handle_every_length() {
        for len in 0..70 {
            let plain: Vec<u8> = (0..len).collect();
            let sealed = aes_encrypt(&[3; 16], &plain);
            assert_eq!(aes_decrypt(&[3; 16], &sealed).as_deref(), Some(&plain));
            let sealed = aes256k_encrypt(&[4; 32], 7, [9; 16], &plain);
            assert_eq!(aes256k_decrypt(&[4; 32], 7, &sealed).as_deref(), Some(&plain));
        }
    }

    #[test]
    fn invalid_ciphertext_is_refused() {
        assert_eq!(aes_decrypt(&[3; 16], &[]), None);
        assert_eq!(aes_decrypt(&[3; 16], &[0; 17]), None);
        assert_eq!(aes256k_decrypt(&[3; 32], 1, &[0; 39]), None);
        assert_eq!(aes256k_decrypt(&[3; 32], 1, &[]), None);
    }
}
