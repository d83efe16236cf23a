//! How a key is spread over a key slot, so that it is gone when any of it is overwritten ("AFsplitter" in the
//! specification of LUKS1, 2.4).

use onego_cipher::hash::Hash;
use zeroize::Zeroizing;

/// Spreads a key over `stripes` times its length.
pub(crate) fn split(hash: Hash, key: &[u8], stripes: usize, random: &mut dyn FnMut(&mut [u8])) -> Vec<u8> {
    let mut spread = vec![0; key.len() * stripes];
    let (noise, last) = spread.split_at_mut(key.len() * (stripes - 1));
    random(noise);
    let sum = diffused(hash, noise, key.len());
    last.iter_mut().zip(key).zip(sum.iter()).for_each(|((last, key), sum)| *last = key ^ sum);
    spread
}

/// Gets the key of `length` bytes back.
pub(crate) fn merge(hash: Hash, spread: &[u8], length: usize) -> Vec<u8> {
    let (noise, last) = spread.split_at(spread.len() - length);
    let sum = diffused(hash, noise, length);
    last.iter().zip(sum.iter()).map(|(last, sum)| last ^ sum).collect()
}

/// The stripes, one mixed into the other.
fn diffused(hash: Hash, stripes: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
    let mut sum = Zeroizing::new(vec![0; length]);
    for stripe in stripes.chunks_exact(length) {
        sum.iter_mut().zip(stripe).for_each(|(sum, byte)| *sum ^= byte);
        diffuse(hash, &mut sum);
    }
    sum
}

/// Replaces each piece as long as a digest by the digest of its number and itself.
fn diffuse(hash: Hash, bytes: &mut [u8]) {
    for (piece, number) in bytes.chunks_mut(hash.len()).zip(0u32..) {
        let mut hashed = Zeroizing::new(number.to_be_bytes().to_vec());
        hashed.extend_from_slice(piece);
        piece.copy_from_slice(&hash.digest(&hashed)[..piece.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_spread_comes_back() {
        for (hash, length) in [(Hash::Sha1, 64), (Hash::Sha256, 64), (Hash::Sha256, 32), (Hash::Sha512, 64)] {
            let key: Vec<u8> = (0..length).collect();
            let mut seed = 1u8;
            let mut spread = split(hash, &key, 100, &mut |noise| {
                noise.iter_mut().for_each(|byte| {
                    seed = seed.wrapping_mul(29).wrapping_add(7);
                    *byte = seed;
                });
            });
            assert_eq!(merge(hash, &spread, key.len()), key);
            spread[3] ^= 1;
            assert_ne!(merge(hash, &spread, key.len()), key);
        }
    }
}
