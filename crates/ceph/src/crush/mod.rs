//! CRUSH: the map of where data may be, and the function that says where it is.
//!
//! A [`CrushMap`] is a forest of [`Bucket`]s over devices (OSDs) and a list of [`Rule`]s. [`CrushMap::do_rule`] maps
//! a number (a placement group's hash) to a list of devices, bit for bit as every Ceph client and daemon does.
//!
//! Sources: ceph `src/crush/crush.h` (the structures), `src/crush/CrushWrapper.cc` (the encoding),
//! `src/crush/mapper.c` (the function).

mod bucket;
mod build;
mod codec;
mod edit;
mod firstn;
mod indep;
mod ln;
mod mapper;
mod msr;
mod permutation;
mod steps;

pub use bucket::{Bucket, Weights};
pub use build::Layout;
pub use edit::{EditError, Location};
pub use mapper::{MAX_RESULT, Workspace};

use std::collections::BTreeMap;

/// No device: what stands in the result of a positional ("indep") rule where none could be found.
pub const ITEM_NONE: i32 = 0x7fff_ffff;

/// The set of [`ChooseArgs`] that applies where no set of the pool's own exists.
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// Weight 1.0: weights are fixed-point numbers with 16 fractional bits.
pub const WEIGHT_ONE: u32 = 0x1_0000;

/// A CRUSH map, with all that its encoding has.
///
/// Items are devices (0 and up) and buckets (below 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrushMap {
    /// The buckets: bucket `b` is at index `-1 - b`.
    pub buckets: Vec<Option<Bucket>>,
    /// The rules by number.
    pub rules: Vec<Option<Rule>>,
    /// Devices are below this number.
    pub max_devices: i32,
    /// Names of the types of items: type 0 is the devices'.
    pub type_names: BTreeMap<i32, String>,
    /// Names of items.
    pub item_names: BTreeMap<i32, String>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, String>,
    /// How hard rules try.
    pub tunables: Tunables,
    /// Class of each device that has one, and of each shadow bucket.
    pub classes: BTreeMap<i32, i32>,
    /// Names of the device classes.
    pub class_names: BTreeMap<i32, String>,
    /// By bucket and class, the bucket's shadow: a copy that holds the devices of that class alone.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Sets of replacements for weights and ids, by pool or [`DEFAULT_CHOOSE_ARGS`].
    pub choose_args: BTreeMap<i64, ChooseArgs>,
}

impl CrushMap {
    /// The bucket of that (negative) id.
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        // For an id >= 0, this index is at 2^31 and over.
        self.buckets.get(!id as u32 as usize)?.as_ref()
    }

    /// The rule of that number.
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)?.as_ref()
    }

    /// The item of that name.
    pub fn item_id(&self, name: &str) -> Option<i32> {
        self.item_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// The type of that name.
    pub fn type_id(&self, name: &str) -> Option<i32> {
        self.type_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// The number of the rule of that name.
    pub fn rule_id(&self, name: &str) -> Option<u32> {
        let (&id, _) = self.rule_names.iter().find(|(_, n)| *n == name)?;
        u32::try_from(id).ok()
    }

    /// Lowers `max_devices` to one more than the highest device that is in a bucket or has a name. Ceph does so
    /// whenever it has decoded a map (CrushWrapper::finalize), which shows where it encodes the map again: in a full
    /// OSD map after an incremental one that removed devices.
    pub fn finalize(&mut self) {
        let named = self.item_names.last_key_value().map_or(0, |(&last, _)| last.saturating_add(1));
        self.max_devices = device_bound(&self.buckets).max(named);
    }

    /// The first rule for pools of that type and size in the ruleset, as Ceph 16 and the kernel look it up. Later
    /// versions use the ruleset's number for the rule's.
    pub fn find_rule(&self, ruleset: u8, kind: u8, size: u8) -> Option<u32> {
        let fits = |rule: &Rule| {
            rule.ruleset == ruleset && rule.kind == kind && (rule.min_size..=rule.max_size).contains(&size)
        };
        (0..).zip(&self.rules).find(|(_, rule)| rule.as_ref().is_some_and(fits)).map(|(number, _)| number)
    }

    /// The set of replacements for that pool: its own, else the default one.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgs> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }
}

/// One more than the highest device in the buckets.
fn device_bound(buckets: &[Option<Bucket>]) -> i32 {
    let items = buckets.iter().flatten().flat_map(|bucket| &bucket.items);
    items.max().map_or(0, |&last| last.saturating_add(1).max(0))
}

/// A recipe for a list of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The rule's own number, once a number shared by rules for pools of different sizes.
    pub ruleset: u8,
    /// The type of pools it is for: one of [`Rule::REPLICATED`] and its like.
    pub kind: u8,
    /// The smallest pool size it is for; not used since Ceph 17.
    pub min_size: u8,
    /// The largest pool size it is for; not used since Ceph 17.
    pub max_size: u8,
    /// What to do, in order.
    pub steps: Vec<Step>,
}

impl Rule {
    /// For replicated pools.
    pub const REPLICATED: u8 = 1;
    /// For erasure coded pools.
    pub const ERASURE: u8 = 3;
    /// For replicated pools, retrying over all its steps ("multi-step retry", Ceph 19.2).
    pub const MSR_FIRSTN: u8 = 4;
    /// For erasure coded pools, retrying over all its steps.
    pub const MSR_INDEP: u8 = 5;

    /// Does it retry over all its steps?
    pub fn is_msr(&self) -> bool {
        matches!(self.kind, Self::MSR_FIRSTN | Self::MSR_INDEP)
    }
}

/// One step of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub op: StepOp,
    /// An item, a count (0 or less: so many less than wanted in all), or a tunable's value.
    pub arg1: i32,
    /// A type of items.
    pub arg2: i32,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepOp(
    /// The number on the wire.
    pub u32,
);

#[allow(missing_docs)] // The names are the documentation: they are those of crushtool's language.
impl StepOp {
    pub const NOOP: Self = Self(0);
    pub const TAKE: Self = Self(1);
    pub const CHOOSE_FIRSTN: Self = Self(2);
    pub const CHOOSE_INDEP: Self = Self(3);
    pub const EMIT: Self = Self(4);
    pub const CHOOSELEAF_FIRSTN: Self = Self(6);
    pub const CHOOSELEAF_INDEP: Self = Self(7);
    pub const SET_CHOOSE_TRIES: Self = Self(8);
    pub const SET_CHOOSELEAF_TRIES: Self = Self(9);
    pub const SET_CHOOSE_LOCAL_TRIES: Self = Self(10);
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: Self = Self(11);
    pub const SET_CHOOSELEAF_VARY_R: Self = Self(12);
    pub const SET_CHOOSELEAF_STABLE: Self = Self(13);
    pub const SET_MSR_DESCENTS: Self = Self(14);
    pub const SET_MSR_COLLISION_TRIES: Self = Self(15);
    pub const CHOOSE_MSR: Self = Self(16);
}

/// How hard rules try, and with which of the historic flaws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket after a collision.
    pub choose_local_tries: u32,
    /// Retries in the same bucket with a permutation of its items.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top.
    pub choose_total_tries: u32,
    /// Does chooseleaf try once only below the item that it chose?
    pub chooseleaf_descend_once: u32,
    /// Does chooseleaf start below at another place for each attempt above (shifted right by one less)?
    pub chooseleaf_vary_r: u8,
    /// Which way straw lengths are calculated.
    pub straw_calc_version: u8,
    /// The kinds of buckets that may be made: bit n is algorithm n.
    pub allowed_bucket_algs: u32,
    /// Does chooseleaf start below at the same place for each position?
    pub chooseleaf_stable: u8,
    /// Those of multi-step retry rules: encodings for readers before Ceph 19.2 have none.
    pub msr: Option<MsrTunables>,
}

/// How hard multi-step retry rules try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsrTunables {
    /// Attempts from the top.
    pub descents: u32,
    /// Attempts in place after a collision.
    pub collision_tries: u32,
}

impl MsrTunables {
    /// What holds where nothing is said.
    pub const DEFAULT: Self = Self { descents: 100, collision_tries: 100 };
}

impl Tunables {
    /// What held before there were tunables ("argonaut"), and holds for those that an old encoding lacks.
    pub const LEGACY: Self = Self {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: 0,
        // Uniform, list, straw.
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4,
        chooseleaf_stable: 0,
        msr: None,
    };

    /// What is best for new clusters ("jewel").
    pub const OPTIMAL: Self = Self {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        chooseleaf_vary_r: 1,
        straw_calc_version: 1,
        // The above and straw2.
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5,
        chooseleaf_stable: 1,
        msr: None,
    };
}

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
