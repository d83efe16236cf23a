//! Pseudo-random numbers that need not be secret, for the choice of monitors and replicas.

/// SplitMix64 (prng.di.unimi.it): a seed makes a run reproducible.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        // The bias of a remainder by a number of monitors or replicas is negligible in 64 bits.
        (self.next() % n as u64) as usize
    }

    /// Shuffles `items`: each place goes to one of the remaining items with a probability proportional to its weight, or
    /// uniformly if all weights are 0.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T], weight: impl Fn(&T) -> u16) {
        for place in 0..items.len() {
            let left = &items[place..];
            let all = left.iter().map(|item| usize::from(weight(item))).sum();
            let mut drawn = if all == 0 { self.below(left.len()) } else { self.below(all) };
            let is_drawn = |item: &T| {
                let width = if all == 0 { 1 } else { usize::from(weight(item)) };
                let within = drawn < width;
                drawn = drawn.saturating_sub(width);
                within
            };
            let at = left.iter().position(is_drawn).unwrap_or(0);
            items.swap(place, place + at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_occur_and_a_seed_is_reproducible() {
        let mut random = Random::new(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut items = [1, 2, 3];
            random.shuffle(&mut items, |_| 0);
            seen.insert(items);
        }
        assert_eq!(seen.len(), 6);
        assert_eq!(Random::new(9).next(), Random::new(9).next());
    }

    #[test]
    fn higher_weights_come_first_more_often() {
        let mut random = Random::new(7);
        let mut first = [0_u32; 4];
        for _ in 0..1000 {
            let mut items = [0, 10, 30, 60_u16];
            random.shuffle(&mut items, |item| *item);
            assert_eq!(items[3], 0, "weight 0 comes last");
            first[[0, 10, 30, 60].iter().position(|item| *item == items[0]).unwrap()] += 1;
        }
        assert_eq!(first[0], 0);
        assert!((60..140).contains(&first[1]) && (240..360).contains(&first[2]), "{first:?}");
    }
}
