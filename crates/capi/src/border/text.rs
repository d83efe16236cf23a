//! Texts of the program's, with a zero at their end.

use super::errno::Errno;
use super::out::In;
use onego_wire::text::from_bytes;
use std::borrow::Cow;
use std::ffi::{CStr, c_char};

/// A text that ends with a zero, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) const NULL: Self = Self(std::ptr::null());

    /// Is it null?
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The same memory, for bytes of a known length.
    pub(crate) fn as_bytes(&self) -> In<u8> {
        In::at(self.0.cast())
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Result<&[u8], Errno> {
        if self.0.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program gives a text that ends with a zero, and leaves it alone while its call lasts.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// Several texts that lie one behind the other, each with a zero at its end.
    pub(crate) fn several(&self, count: usize) -> Result<Vec<String>, Errno> {
        let (mut at, mut texts) = (*self, Vec::new());
        for _ in 0..count {
            let bytes = at.bytes()?;
            texts.push(from_bytes(bytes).into_owned());
            at = Self(at.0.wrapping_add(bytes.len() + 1));
        }
        Ok(texts)
    }

    /// It as text, which may stand for bytes that are not UTF-8 (see [`onego_wire::text`]).
    pub(crate) fn text(&self) -> Result<Cow<'_, str>, Errno> {
        Ok(from_bytes(self.bytes()?))
    }

    /// Its bytes; null is the empty text.
    pub(crate) fn bytes_or_empty(&self) -> &[u8] {
        self.bytes().unwrap_or_default()
    }

    /// It as text; null is the empty text.
    pub(crate) fn text_or_empty(&self) -> Cow<'_, str> {
        self.text().unwrap_or_default()
    }
}
