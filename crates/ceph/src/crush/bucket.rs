//! Buckets, with the choice function of each algorithm.
//!
//! Source: ceph `src/crush/mapper.c`, the functions `bucket_*_choose`.

use super::choose_args::ChooseArg;
use super::ln::crush_ln;
use crate::hash::{crush_hash32_3, crush_hash32_4};

/// Container of devices or of other buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Id, below 0.
    pub id: i32,
    /// Type (host, rack, ...), a number in the map's type names.
    pub kind: u16,
    /// Hash function of the choice: only 0 exists.
    pub hash: u8,
    /// Sum of the items' weights.
    pub weight: u32,
    /// Items.
    pub items: Vec<i32>,
    /// Algorithm of the choice, with the items' weights.
    pub weights: Weights,
}

/// Algorithm of a bucket, with the weights in its representation. Lists have one entry per item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// Equal weights: chooses from a permutation.
    Uniform {
        /// Weight of each item.
        item: u32,
    },
    /// Walks the list from its end.
    List {
        /// Weights of the items.
        items: Vec<u32>,
        /// Sums of the weights up to each item.
        sums: Vec<u32>,
    },
    /// Walks a binary tree from its root.
    Tree {
        /// Weights of the subtrees: item `i` is node `2i + 1`, an even node lies between its children.
        nodes: Vec<u32>,
    },
    /// The longest straw wins; lengths are precomputed.
    Straw {
        /// Weights of the items.
        items: Vec<u32>,
        /// Lengths of their straws.
        straws: Vec<u32>,
    },
    /// The longest straw wins; lengths depend only on the item's own weight.
    Straw2 {
        /// Weights of the items.
        items: Vec<u32>,
    },
}

impl Weights {
    /// Returns the number of the algorithm.
    pub fn algorithm(&self) -> u8 {
        match self {
            Self::Uniform { .. } => 1,
            Self::List { .. } => 2,
            Self::Tree { .. } => 3,
            Self::Straw { .. } => 4,
            Self::Straw2 { .. } => 5,
        }
    }

    /// Returns the weight of the item at that index.
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
    /// Returns the cost of a choice, in hashes.
    pub(super) fn choice_cost(&self) -> usize {
        match self.weights {
            Weights::Uniform { .. } => 1,
            Weights::Tree { .. } => 8,
            Weights::List { .. } | Weights::Straw { .. } | Weights::Straw2 { .. } => self.items.len(),
        }
    }

    /// Returns the mask of hashes: an unknown hash function yields 0.
    pub(super) fn hash_mask(&self) -> u32 {
        if self.hash == 0 { u32::MAX } else { 0 }
    }

    /// Returns the item for an input and attempt, unless the bucket is uniform, empty or invalid.
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
                return None; // Peers never create such a tree.
            }
            let weight = *nodes.get(node)?;
            let draw = crush_hash32_4(x, node as u32, r, self.id as u32) & self.hash_mask();
            let draw = (u64::from(draw) * u64::from(weight)) >> 32;
            // Its children are at a distance of half its lowest set bit.
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

/// Number of hashes computed in parallel: they are most of the work, and each is one long dependency chain.
const LANES: usize = 8;

#[inline]
fn hash_lanes(x: u32, ids: &[i32], r: u32) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    // The same code twice: only a fixed number is vectorized.
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

/// Returns the straw of an item of that weight, if it is longer than the longest so far.
#[inline]
fn straw2(draw: u32, weight: u32, longest: i64) -> Option<i64> {
    if weight == 0 {
        return None;
    }
    // 2^44 * log2 of a number in (0, 1].
    let ln = crush_ln(draw) as i64 - (1 << 48);
    // Peers treat the weight as a signed number.
    let weight = i64::from(weight as i32);
    // ln / weight <= longest, without the division. It rounds up for these signs, and `longest` is an integer.
    if weight > 0 && i128::from(ln) <= i128::from(longest) * i128::from(weight) {
        return None;
    }
    Some(ln / weight).filter(|&straw| straw > longest)
}
