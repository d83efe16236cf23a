//! Keys, sealed data, secrets and randomness.

pub(super) mod cipher;
pub(super) mod entropy;
pub(super) mod key;
pub(super) mod sealed;
pub(super) mod secret;

pub use entropy::Entropy;
pub use key::{Cipher, Key, Usage};
pub use sealed::{open, open_counted, seal, seal_counted};
pub use secret::Secret;
