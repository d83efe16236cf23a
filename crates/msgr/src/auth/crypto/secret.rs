//! Secret bytes.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use std::fmt;
use zeroize::Zeroizing;

/// Secret bytes: wiped when dropped, compared in constant time, never printed.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the bytes. Callers must not print or retain them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_and_equals_only_itself() {
        let secret = Secret::new(b"hunter2".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(secret, Secret::new(b"hunter2".to_vec()));
        assert_ne!(secret, Secret::new(b"hunter3".to_vec()));
        assert_ne!(secret, Secret::new(b"hunter".to_vec()));
    }
}
