//! The CRUSH map.

use super::bucket::Bucket;
use super::choose_args::ChooseArgs;
use super::rule::Rule;
use super::tunables::Tunables;
use std::collections::BTreeMap;

/// Stands for a missing device in the result of a positional ("indep") rule.
pub const ITEM_NONE: i32 = 0x7fff_ffff;

/// Key of the [`ChooseArgs`] for pools without their own.
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// Weight 1.0: weights are fixed-point numbers with 16 fractional bits.
pub const WEIGHT_ONE: u32 = 0x1_0000;

/// CRUSH map, with everything in its encoding.
///
/// Items are devices (0 and up) and buckets (below 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrushMap {
    /// Buckets: bucket `b` is at index `-1 - b`.
    pub buckets: Vec<Option<Bucket>>,
    /// Rules by number.
    pub rules: Vec<Option<Rule>>,
    /// Upper bound of device ids, exclusive.
    pub max_devices: i32,
    /// Names of item types; type 0 are the devices.
    pub type_names: BTreeMap<i32, String>,
    /// Names of items.
    pub item_names: BTreeMap<i32, String>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, String>,
    /// Tunables of the rules.
    pub tunables: Tunables,
    /// Device class of each device that has one, and of each shadow bucket.
    pub classes: BTreeMap<i32, i32>,
    /// Names of the device classes.
    pub class_names: BTreeMap<i32, String>,
    /// Shadow buckets, by bucket and class: copies with only the devices of the class.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Alternative weights and ids, by pool or [`DEFAULT_CHOOSE_ARGS`].
    pub choose_args: BTreeMap<i64, ChooseArgs>,
}

impl CrushMap {
    /// Returns the bucket with that (negative) id.
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        // For an id >= 0, this index is at least 2^31.
        self.buckets.get(!id as u32 as usize)?.as_ref()
    }

    /// Returns the rule with that number.
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)?.as_ref()
    }

    /// Returns the id of the item with that name.
    pub fn item_id(&self, name: &str) -> Option<i32> {
        self.item_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// Returns the number of the type with that name.
    pub fn type_id(&self, name: &str) -> Option<i32> {
        self.type_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// Returns the number of the rule with that name.
    pub fn rule_id(&self, name: &str) -> Option<u32> {
        let (&id, _) = self.rule_names.iter().find(|(_, n)| *n == name)?;
        u32::try_from(id).ok()
    }

    /// Lowers `max_devices` to one more than the highest device that is in a bucket or has a name. Ceph does so
    /// whenever it has decoded a map (CrushWrapper::finalize). The effect is visible where it encodes the map again: in a full
    /// OSD map after an incremental one that removed devices.
    pub fn finalize(&mut self) {
        let named = self.item_names.last_key_value().map_or(0, |(&last, _)| last.saturating_add(1));
        self.max_devices = device_bound(&self.buckets).max(named);
    }

    /// Returns the first rule for pools of that type and size in the ruleset, like Ceph 16 and the kernel. Later
    /// versions use the ruleset's number as the rule's.
    pub fn find_rule(&self, ruleset: u8, kind: u8, size: u8) -> Option<u32> {
        let fits = |rule: &Rule| {
            rule.ruleset == ruleset && rule.kind == kind && (rule.min_size..=rule.max_size).contains(&size)
        };
        (0..).zip(&self.rules).find(|(_, rule)| rule.as_ref().is_some_and(fits)).map(|(number, _)| number)
    }

    /// Returns the alternatives for that pool: its own, or the default ones.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgs> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }
}

/// Returns one more than the highest device in the buckets.
pub(super) fn device_bound(buckets: &[Option<Bucket>]) -> i32 {
    let items = buckets.iter().flatten().flat_map(|bucket| &bucket.items);
    items.max().map_or(0, |&last| last.saturating_add(1).max(0))
}
