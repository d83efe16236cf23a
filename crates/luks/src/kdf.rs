//! Keys from passphrases, within bounds: a header that was made to hurt must not cost minutes or gigabytes.

use crate::error::Error;
use argon2::{Algorithm, Argon2, Params, Version};
use onego_cipher::hash::Hash;
use zeroize::Zeroizing;

/// Most memory of Argon2, in KiB: 1 GiB, the most that cryptsetup takes.
const MAX_MEMORY: u32 = 1 << 20;
/// Most lanes of Argon2. cryptsetup takes 4 at most.
const MAX_LANES: u32 = 64;

/// What may be spent on one passphrase, over all key slots that it is tried on.
///
/// The bounds are some ten times what cryptsetup takes by default, which is two seconds a key slot on the machine that makes it.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Iterations of PBKDF2, for each digest that the key is long.
    iterations: u64,
    /// KiB of memory that Argon2 goes over.
    memory: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(64 << 20, 32 << 20)
    }
}

impl Budget {
    /// A number of iterations of PBKDF2, and of KiB that Argon2 goes over.
    pub fn new(iterations: u64, memory: u64) -> Self {
        Self { iterations, memory }
    }
}

/// How a key comes of a passphrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kdf {
    Pbkdf2 { hash: Hash, iterations: u32, salt: Vec<u8> },
    Argon2 { algorithm: Algorithm, passes: u32, memory: u32, lanes: u32, salt: Vec<u8> },
}

impl Kdf {
    /// The key of `length` bytes.
    pub(crate) fn derive(
        &self,
        passphrase: &[u8],
        length: usize,
        budget: &mut Budget,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let mut key = Zeroizing::new(vec![0; length]);
        match self {
            Self::Pbkdf2 { hash, iterations, salt } => {
                let cost = u64::from(*iterations) * length.div_ceil(hash.len()) as u64;
                spend(&mut budget.iterations, cost, "iterations of PBKDF2")?;
                if *iterations == 0 {
                    return Err(Error::Damaged("it has a key slot with no iterations"));
                }
                hash.pbkdf2(passphrase, salt, *iterations, &mut key);
            }
            Self::Argon2 { algorithm, passes, memory, lanes, salt } => {
                if *memory > MAX_MEMORY || *lanes > MAX_LANES {
                    return Err(Error::TooCostly(format!("{memory} KiB and {lanes} lanes of Argon2")));
                }
                spend(&mut budget.memory, u64::from(*memory) * u64::from(*passes), "KiB of Argon2")?;
                let wrong = |_| Error::Damaged("it has a key slot with parameters that Argon2 does not take");
                let params = Params::new(*memory, *passes, *lanes, Some(length)).map_err(wrong)?;
                Argon2::new(*algorithm, Version::V0x13, params)
                    .hash_password_into(passphrase, salt, &mut key)
                    .map_err(wrong)?;
            }
        }
        Ok(key)
    }
}

fn spend(left: &mut u64, cost: u64, unit: &str) -> Result<(), Error> {
    *left = left.checked_sub(cost).ok_or_else(|| Error::TooCostly(format!("{cost} {unit}")))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_and_end() {
        let mut budget = Budget { iterations: 5, memory: 100 };
        let kdf = Kdf::Pbkdf2 { hash: Hash::Sha256, iterations: 2, salt: vec![1] };
        assert!(kdf.derive(b"a", 64, &mut budget).is_ok(), "four iterations");
        assert!(matches!(kdf.derive(b"a", 32, &mut budget), Err(Error::TooCostly(_))));
        let argon = |memory, passes| Kdf::Argon2 {
            algorithm: Algorithm::Argon2id,
            passes,
            memory,
            lanes: 1,
            salt: vec![1; 8],
        };
        assert!(argon(8, 2).derive(b"a", 32, &mut budget).is_ok());
        assert!(matches!(argon(50, 2).derive(b"a", 32, &mut budget), Err(Error::TooCostly(_))));
        assert!(matches!(argon(u32::MAX, 1).derive(b"a", 32, &mut budget), Err(Error::TooCostly(_))));
        assert!(matches!(argon(1, 1).derive(b"a", 32, &mut budget), Err(Error::Damaged(_))));
    }
}
