//! Deterministic random number generator.

use super::secret::Secret;
use aws_lc_rs::hmac;

/// Cryptographically secure generator: HMAC-SHA256 of a counter, keyed with the seed (the counter mode of NIST SP
/// 800-108). The protocol code draws all randomness from it, so that a run can be repeated; a production program seeds
/// it from the operating system.
#[derive(Debug, Clone)]
pub struct Entropy {
    seed: Secret,
    counter: u64,
}

impl Entropy {
    /// Creates a generator from `seed`, which is not wiped: production programs convert from a [`Secret`] instead.
    pub fn new(seed: [u8; 32]) -> Self {
        Self::from(Secret::new(seed.to_vec()))
    }

    /// Fills `bytes` with random data.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.seed.expose());
        for chunk in bytes.chunks_mut(32) {
            let block = hmac::sign(&key, &self.counter.to_le_bytes());
            chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
            self.counter += 1;
        }
    }

    /// Returns a random number.
    pub fn u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a random secret of `len` bytes.
    pub fn secret(&mut self, len: usize) -> Secret {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        Secret::new(bytes)
    }

    /// Creates an independent generator: its numbers cannot be inferred from this one's.
    pub fn fork(&mut self) -> Self {
        Self { seed: self.secret(32), counter: 0 }
    }
}

impl From<Secret> for Entropy {
    fn from(seed: Secret) -> Self {
        Self { seed, counter: 0 }
    }
}

impl From<[u8; 32]> for Entropy {
    fn from(seed: [u8; 32]) -> Self {
        Self::new(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_no_number_repeats() {
        let (mut one, mut two) = (Entropy::new([7; 32]), Entropy::new([7; 32]));
        let numbers: Vec<u64> = (0..100).map(|_| one.u64()).collect();
        assert!(numbers.iter().all(|number| *number == two.u64()));
        let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), 100);
        assert_ne!(one.fork().u64(), Entropy::new([7; 32]).u64());
    }

    #[test]
    fn long_secrets_do_not_repeat_within_themselves() {
        let secret = Entropy::new([1; 32]).secret(64);
        assert_ne!(secret.expose()[..32], secret.expose()[32..]);
    }
}
