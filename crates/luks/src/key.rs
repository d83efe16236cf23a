//! The key of the data.

use std::fmt;
use zeroize::Zeroizing;

/// The key of the data. It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeKey(Zeroizing<Vec<u8>>);

impl VolumeKey {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey")
    }
}
