//! Replacements for the weights and ids of buckets, for single pools.

use std::collections::BTreeMap;

/// Replacements for weights and ids of straw2 buckets, by the bucket's index (`-1 - id`).
pub type ChooseArgs = BTreeMap<u32, ChooseArg>;

/// Replacements for the weights and ids of the items of one straw2 bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChooseArg {
    /// Weights of all items by position in the result; the last list is for all further positions.
    pub weight_set: Vec<Vec<u32>>,
    /// What is hashed instead of the items' ids, if not empty.
    pub ids: Vec<i32>,
}
