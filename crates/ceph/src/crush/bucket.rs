//! Buckets, and how each kind of them chooses one of its items.
//!
//! Source: ceph `src/crush/mapper.c`, the functions `bucket_*_choose`.

use super::choose_args::ChooseArg;
use super::ln::crush_ln;
use crate::hash::{crush_hash32_3, crush_hash32_4};

/// A container of devices or of other buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its id, below 0.
    pub id: i32,
    /// Its type (host, rack, ...), as numbered in the map's type names.
    pub kind: u16,
    /// The hash it chooses with: 0 is the only one there is.
    pub hash: u8,
    /// The sum of the weights of its items.
    pub weight: u32,
    /// What it holds.
    pub items: Vec<i32>,
    /// How it chooses among them.
    pub weights: Weights,
}

/// The algorithm of a bucket, with the weights as it wants them. Lists have an entry for each item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// All items weigh the same: the choice is from a permutation.
    Uniform {
        /// What each item weighs.
        item: u32,
    },
    /// The choice is from the end of the list on.
    List {
        /// What the items weigh.
        items: Vec<u32>,
        /// What the items up to each weigh together.
        sums: Vec<u32>,
    },
    /// The choice is from the root of a binary tree down.
    Tree {
        /// What the subtrees weigh: item `i` is node `2i + 1`, an even node lies between its children.
        nodes: Vec<u32>,
    },
    /// The longest straw wins; lengths are precomputed.
    Straw {
        /// What the items weigh.
        items: Vec<u32>,
        /// How long their straws are.
        straws: Vec<u32>,
    },
    /// The longest straw wins; lengths follow from the weights alone.
    Straw2 {
        /// What the items weigh.
        items: Vec<u32>,
    },
}

impl Weights {
    /// The algorithm's number.
    pub fn algorithm(&self) -> u8 {
        match self {
            Self::Uniform { .. } => 1,
            Self::List { .. } => 2,
            Self::Tree { .. } => 3,
            Self::Straw { .. } => 4,
            Self::Straw2 { .. } => 5,
        }
    }

    /// The weight of the item at that place in the bucket.
    pub fn item(&self, at: usize) -> Option<u32> {
        match self {
            Self::Uniform { item } => Some(*item),
            Self::List { items, .. } | Self::Straw { items, .. } | Self::Straw2 { items } => {
                items.get(at).copied()
            }
            Self::Tree { nodes } => nodes.get(2 * at + 1).copied(),
        }
    }
}

impl Bucket {
    /// How much work a choice is, in hashes.
    pub(super) fn choice_cost(&self) -> usize {
        match self.weights {
            Weights::Uniform { .. } => 1,
            Weights::Tree { .. } => 8,
            Weights::List { .. } | Weights::Straw { .. } | Weights::Straw2 { .. } => self.items.len(),
        }
    }

    /// What hashes are masked with: the hash of an unknown kind is 0.
    pub(super) fn hash_mask(&self) -> u32 {
        if self.hash == 0 { u32::MAX } else { 0 }
    }

    /// The item for that input and attempt, unless the bucket is uniform, empty or broken.
    #[inline]
    pub(super) fn choose(&self, x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> Option<i32> {
        match &self.weights {
            Weights::Uniform { .. } => None,
            Weights::List { items, sums } => self.choose_list(items, sums, x, r),
            Weights::Tree { nodes } => self.choose_tree(nodes, x, r),
            Weights::Straw { straws, .. } => self.choose_straw(straws, x, r),
            Weights::Straw2 { items: weights } => {
                let mut weights = weights.as_slice();
                let mut ids = self.items.as_slice();
                if let Some(arg) = arg {
                    if let Some(set) = arg.weight_set.get(position).or(arg.weight_set.last()) {
                        weights = set;
                    }
                    if !arg.ids.is_empty() {
                        ids = &arg.ids;
                    }
                }
                self.choose_straw2(weights, ids, x, r)
            }
        }
    }

    fn choose_list(&self, weights: &[u32], sums: &[u32], x: u32, r: u32) -> Option<i32> {
        let mask = self.hash_mask() & 0xffff;
        for ((&item, &weight), &sum) in self.items.iter().zip(weights).zip(sums).rev() {
            let draw = crush_hash32_4(x, item as u32, r, self.id as u32) & mask;
            if (u64::from(draw) * u64::from(sum)) >> 16 < u64::from(weight) {
                return Some(item);
            }
        }
        self.items.first().copied()
    }

    fn choose_tree(&self, nodes: &[u32], x: u32, r: u32) -> Option<i32> {
        let mut node = nodes.len() >> 1;
        while node & 1 == 0 {
            if node == 0 {
                return None; // Peers never make such a tree.
            }
            let weight = *nodes.get(node)?;
            let draw = crush_hash32_4(x, node as u32, r, self.id as u32) & self.hash_mask();
            let draw = (u64::from(draw) * u64::from(weight)) >> 32;
            // Its children are as far to both sides as half its lowest set bit says.
            let step = (node & node.wrapping_neg()) >> 1;
            let left = node - step;
            node = if draw < u64::from(*nodes.get(left)?) { left } else { node + step };
        }
        self.items.get(node >> 1).copied()
    }

    fn choose_straw(&self, straws: &[u32], x: u32, r: u32) -> Option<i32> {
        let mask = self.hash_mask() & 0xffff;
        let mut best = *self.items.first()?;
        let mut longest = 0;
        for (&item, &straw) in self.items.iter().zip(straws) {
            let draw = u64::from(crush_hash32_3(x, item as u32, r) & mask) * u64::from(straw);
            if draw > longest {
                best = item;
                longest = draw;
            }
        }
        Some(best)
    }

    fn choose_straw2(&self, weights: &[u32], ids: &[i32], x: u32, r: u32) -> Option<i32> {
        let mask = self.hash_mask() & 0xffff;
        let mut best = *self.items.first()?;
        let mut longest = i64::MIN;
        let items = self.items.chunks(LANES).zip(ids.chunks(LANES)).zip(weights.chunks(LANES));
        for ((items, ids), weights) in items {
            let draws = hash_lanes(x, ids, r);
            for ((&item, draw), &weight) in items.iter().zip(draws).zip(weights) {
                if let Some(straw) = straw2(draw & mask, weight, longest) {
                    best = item;
                    longest = straw;
                }
            }
        }
        Some(best)
    }
}

/// How many hashes are calculated side by side: they are most of the work, and each by itself is one long chain.
const LANES: usize = 8;

/// The hashes of the input, each of up to [`LANES`] ids, and the attempt.
#[inline]
fn hash_lanes(x: u32, ids: &[i32], r: u32) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    // The same twice: only where the number is fixed are they done side by side.
    if let Ok(ids) = <&[i32; LANES]>::try_from(ids) {
        for (lane, &id) in lanes.iter_mut().zip(ids) {
            *lane = crush_hash32_3(x, id as u32, r);
        }
    } else {
        for (lane, &id) in lanes.iter_mut().zip(ids) {
            *lane = crush_hash32_3(x, id as u32, r);
        }
    }
    lanes
}

/// The straw that was drawn for an item of that weight, if it is longer than the longest so far.
#[inline]
fn straw2(draw: u32, weight: u32, longest: i64) -> Option<i64> {
    if weight == 0 {
        return None;
    }
    // 2^44 * log2 of a number in (0, 1].
    let ln = crush_ln(draw) as i64 - (1 << 48);
    // Peers take the weight for a signed number.
    let weight = i64::from(weight as i32);
    // ln / weight <= longest, without the division. It rounds up for these signs, and `longest` is whole.
    if weight > 0 && i128::from(ln) <= i128::from(longest) * i128::from(weight) {
        return None;
    }
    Some(ln / weight).filter(|&straw| straw > longest)
}
