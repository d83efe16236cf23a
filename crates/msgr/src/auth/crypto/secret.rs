//! Bytes that nobody else may see.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use std::fmt;
use zeroize::Zeroizing;

/// Secret bytes: wiped when dropped, compared in constant time, never printed.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes. Their users must not show or keep them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there no secret?
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
    fn a_secret_shows_nothing_and_equals_itself_alone() {
        let secret = Secret::new(b"hunter2".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(secret, Secret::new(b"hunter2".to_vec()));
        assert_ne!(secret, Secret::new(b"hunter3".to_vec()));
        assert_ne!(secret, Secret::new(b"hunter".to_vec()));
    }
}
