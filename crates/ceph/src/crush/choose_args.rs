//! Alternative weights and ids of buckets, for single pools.

use std::collections::BTreeMap;

/// Alternative weights and ids of straw2 buckets, by bucket index (`-1 - id`).
pub type ChooseArgs = BTreeMap<u32, ChooseArg>;

/// Alternative weights and ids of the items of one straw2 bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChooseArg {
    /// Weights of all items by position in the result; the last list applies to all further positions.
    pub weight_set: Vec<Vec<u32>>,
    /// Ids to hash instead of the items', if not empty.
    pub ids: Vec<i32>,
}
