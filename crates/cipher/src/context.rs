//! Context of AWS-LC's EVP cipher interface.

use aws_lc_sys as lc;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};

/// Size of a GCM tag, in bytes.
pub(crate) const TAG_LEN: usize = 16;

/// Maximum number of bytes passed at a time: AWS-LC's lengths are of type `int`.
const STEP: usize = 1 << 30;

const TAKES_IT: &str = "AWS-LC accepts pieces of a started record";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Encrypt = 1,
    Decrypt = 0,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cipher {
    Aes128Gcm,
    Aes256Xts,
    Aes128Ecb,
    #[cfg(test)]
    Aes256Ecb,
}

impl Cipher {
    pub(crate) const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128Ecb => 16,
            #[cfg(test)]
            Self::Aes256Ecb => 32,
            Self::Aes256Xts => 64,
        }
    }

    /// Nonce or tweak length in bytes.
    pub(crate) const fn iv_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 12,
            Self::Aes256Xts => 16,
            Self::Aes128Ecb => 0,
            #[cfg(test)]
            Self::Aes256Ecb => 0,
        }
    }

    fn evp(self) -> *const lc::EVP_CIPHER {
        match self {
            // SAFETY: it has no arguments and returns a static.
            Self::Aes128Gcm => unsafe { lc::EVP_aes_128_gcm() },
            // SAFETY: as above.
            Self::Aes256Xts => unsafe { lc::EVP_aes_256_xts() },
            // SAFETY: as above.
            Self::Aes128Ecb => unsafe { lc::EVP_aes_128_ecb() },
            // SAFETY: as above.
            #[cfg(test)]
            Self::Aes256Ecb => unsafe { lc::EVP_aes_256_ecb() },
        }
    }
}

/// `EVP_CIPHER_CTX` with its key, wiped by AWS-LC when freed.
pub(crate) struct Context {
    evp: NonNull<lc::EVP_CIPHER_CTX>,
    cipher: Cipher,
}

// SAFETY: the context is owned and not bound to a thread.
unsafe impl Send for Context {}
// SAFETY: every change to the context requires `&mut`; a shared reference only shows its name.
unsafe impl Sync for Context {}

impl Context {
    /// Returns `None` if AWS-LC refuses the key.
    pub(crate) fn new(cipher: Cipher, direction: Direction, key: &[u8]) -> Option<Self> {
        assert_eq!(key.len(), cipher.key_len(), "the key has the cipher's length");
        // SAFETY: it has no arguments; its result is checked.
        let evp = unsafe { lc::EVP_CIPHER_CTX_new() };
        let evp = NonNull::new(evp).expect("out of memory for a cipher context");
        let context = Self { evp, cipher };
        // SAFETY: the context is valid, the key has the cipher's length, and the nonce follows later.
        let done = unsafe {
            lc::EVP_CipherInit_ex(
                context.evp.as_ptr(),
                cipher.evp(),
                ptr::null_mut(),
                key.as_ptr(),
                ptr::null(),
                direction as c_int,
            )
        };
        // SAFETY: the context is valid. All input comes in whole blocks.
        unsafe { lc::EVP_CIPHER_CTX_set_padding(context.evp.as_ptr(), 0) };
        (done == 1).then_some(context)
    }

    #[inline]
    pub(crate) fn begin(&mut self, iv: &[u8]) {
        assert_eq!(iv.len(), self.cipher.iv_len(), "the nonce has the cipher's length");
        // SAFETY: the nonce has the length of the context's cipher; -1 keeps the direction.
        let done = unsafe {
            lc::EVP_CipherInit_ex(
                self.evp.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                iv.as_ptr(),
                -1,
            )
        };
        assert_eq!(done, 1, "AWS-LC accepts a nonce of the cipher's length");
    }

    #[inline]
    pub(crate) fn update_in_place(&mut self, piece: &mut [u8]) {
        for piece in piece.chunks_mut(STEP) {
            let at = piece.as_mut_ptr();
            let mut len = 0;
            // SAFETY: `at` is valid for reads and writes of the given length; in-place operation is allowed.
            let done =
                unsafe { lc::EVP_CipherUpdate(self.evp.as_ptr(), at, &mut len, at, piece.len() as c_int) };
            assert_eq!((done, len as usize), (1, piece.len()), "{TAKES_IT}");
        }
    }

    #[inline]
    pub(crate) fn update(&mut self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "a piece keeps its length");
        for (from, to) in from.chunks(STEP).zip(to.chunks_mut(STEP)) {
            let mut len = 0;
            // SAFETY: both are valid for the given length, and they do not overlap.
            let done = unsafe {
                lc::EVP_CipherUpdate(
                    self.evp.as_ptr(),
                    to.as_mut_ptr(),
                    &mut len,
                    from.as_ptr(),
                    from.len() as c_int,
                )
            };
            assert_eq!((done, len as usize), (1, from.len()), "{TAKES_IT}");
        }
    }

    /// Ends a sealed record and returns its tag.
    #[inline]
    pub(crate) fn tag(&mut self) -> [u8; TAG_LEN] {
        assert!(self.end(), "{TAKES_IT}");
        let mut tag = [0; TAG_LEN];
        self.control(lc::EVP_CTRL_AEAD_GET_TAG, &mut tag);
        tag
    }

    /// Ends an opened record. Returns whether it is authentic.
    #[inline]
    pub(crate) fn check(&mut self, tag: &[u8; TAG_LEN]) -> bool {
        self.control(lc::EVP_CTRL_AEAD_SET_TAG, &mut { *tag });
        self.end()
    }

    #[inline]
    fn end(&mut self) -> bool {
        let mut len = 0;
        // GCM writes nothing at the end, but requires an output pointer.
        let mut nothing = [0; TAG_LEN];
        // SAFETY: the context is valid, and no cipher writes more than a block.
        let done = unsafe { lc::EVP_CipherFinal_ex(self.evp.as_ptr(), nothing.as_mut_ptr(), &mut len) };
        done == 1
    }

    #[inline]
    fn control(&mut self, command: c_int, tag: &mut [u8; TAG_LEN]) {
        assert_eq!(self.cipher, Cipher::Aes128Gcm, "the cipher has tags");
        let at = tag.as_mut_ptr().cast::<c_void>();
        // SAFETY: both commands read or write the given number of bytes.
        let done = unsafe { lc::EVP_CIPHER_CTX_ctrl(self.evp.as_ptr(), command, TAG_LEN as c_int, at) };
        assert_eq!(done, 1, "AWS-LC has tags of 16 bytes");
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was created by `EVP_CIPHER_CTX_new` and is freed only here.
        unsafe { lc::EVP_CIPHER_CTX_free(self.evp.as_ptr()) }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}
