//! Structures sealed with a key.
//!
//! Source: ceph `src/auth/cephx/CephxProtocol.h` (`encode_encrypt`, `decode_decrypt` and their `_enc_bl` variants).

use super::entropy::Entropy;
use super::key::Key;
use super::key::Usage;
use super::key::opened;
use crate::auth::error::Error;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Reader, Writer};
use zeroize::Zeroizing;

/// Prefix of all sealed data, which detects a wrong key (`AUTH_ENC_MAGIC`).
const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// Seals a structure.
pub fn seal<T: Encode + ?Sized>(key: &Key, usage: Usage, value: &T, entropy: &mut Entropy) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(1);
    w.u64(MAGIC);
    value.encode(&mut w);
    key.encrypt(usage, &Zeroizing::new(w.into_vec()), entropy)
}

/// Opens data sealed by [`seal`].
///
/// # Errors
/// [`Error::Forged`] with `what` if the key is wrong or the data was modified.
pub fn open<T: Decode>(key: &Key, usage: Usage, sealed: &[u8], what: &'static str) -> Result<T, Error> {
    let plain = opened(key.decrypt(usage, sealed), what)?;
    let mut r = Reader::new(&plain);
    let forged = |_| Error::Forged { what };
    r.u8(what).map_err(forged)?;
    if r.u64(what).map_err(forged)? != MAGIC {
        return Err(Error::Forged { what });
    }
    Ok(T::decode(&mut r)?)
}

/// Seals a structure and writes it with a length prefix.
pub fn seal_counted<T: Encode + ?Sized>(
    key: &Key,
    usage: Usage,
    value: &T,
    entropy: &mut Entropy,
    w: &mut Writer,
) {
    w.blob(&seal(key, usage, value, entropy));
}

/// Opens data sealed by [`seal_counted`], and moves `r` past it.
pub fn open_counted<T: Decode>(
    key: &Key,
    usage: Usage,
    r: &mut Reader<'_>,
    what: &'static str,
) -> Result<T, Error> {
    open(key, usage, r.blob(what)?, what)
}

#[cfg(test)]
mod tests {
    use super::super::key::Cipher;
    use super::*;
    use crate::types::Utime;

    #[test]
    fn a_wrong_key_is_detected() {
        let mut entropy = Entropy::new([1; 32]);
        for cipher in [Cipher::Aes, Cipher::Aes256k] {
            let [key, other] = [0; 2].map(|_| Key::generate(cipher, Utime::default(), &mut entropy));
            let sealed = seal(&key, Usage::Authorize, &42u64, &mut entropy);
            assert_eq!(open::<u64>(&key, Usage::Authorize, &sealed, "it"), Ok(42));
            let refused = open::<u64>(&other, Usage::Authorize, &sealed, "it");
            assert_eq!(refused, Err(Error::Forged { what: "it" }));
        }
    }
}
