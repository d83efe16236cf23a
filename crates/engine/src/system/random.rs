//! Unpredictable random numbers without a system call for each.

const WORDS: usize = 512;

/// Returns a source of random numbers from the system's generator.
///
/// # Panics
/// The source panics if the system has no randomness; Linux has it from shortly after boot.
pub fn random_words() -> impl FnMut() -> u64 + Send {
    let mut words = Vec::with_capacity(WORDS);
    move || {
        if words.is_empty() {
            let mut bytes = [0; 8 * WORDS];
            getrandom::fill(&mut bytes).expect("the system has randomness");
            let fresh = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_ne_bytes);
            words.extend(fresh);
        }
        words.pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_numbers_are_alike() {
        let (mut a, mut b) = (random_words(), random_words());
        let mut words: Vec<u64> = (0..2 * WORDS).flat_map(|_| [a(), b()]).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 4 * WORDS);
    }
}
