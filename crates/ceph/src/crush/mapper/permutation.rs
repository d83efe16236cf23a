//! Choice from a random permutation of a bucket's items.
//!
//! Source: ceph `src/crush/mapper.c`, `bucket_perm_choose`.

use crate::crush::bucket::Bucket;
use crate::hash::crush_hash32_3;
use rustc_hash::FxHashMap;

/// Permutations of buckets' items, computed on demand for the current input.
#[derive(Debug, Default)]
pub(super) struct Permutations {
    by_bucket: FxHashMap<i32, Permutation>,
    /// Counts the inputs: permutations of earlier ones are stale.
    round: u64,
}

#[derive(Debug, Default)]
struct Permutation {
    round: u64,
    /// Indexes in the bucket; those before `fixed` are final.
    places: Vec<u32>,
    fixed: usize,
}

impl Permutations {
    pub(super) fn start(&mut self) {
        self.round += 1;
    }

    /// Returns the item of the bucket at `place` (below its size), and the cost.
    pub(super) fn item(&mut self, bucket: &Bucket, x: u32, place: usize) -> (usize, usize) {
        let size = bucket.items.len();
        let draw = |n: usize| {
            let hash = crush_hash32_3(x, bucket.id as u32, n as u32) & bucket.hash_mask();
            hash as usize % (size - n)
        };
        // The first place, the most common one, needs no list.
        if place == 0 {
            return (draw(0), 1);
        }
        let permutation = self.by_bucket.entry(bucket.id).or_default();
        let mut work = 1;
        if permutation.round != self.round || permutation.places.len() != size {
            permutation.round = self.round;
            permutation.places.clear();
            permutation.places.extend(0..size as u32);
            permutation.fixed = 0;
            work += size;
        }
        while permutation.fixed <= place {
            let n = permutation.fixed;
            permutation.places.swap(n, n + draw(n));
            permutation.fixed += 1;
            work += 1;
        }
        (permutation.places[place] as usize, work)
    }
}
