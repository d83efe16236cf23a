//! The function from a number to a list of devices.
//!
//! Source: ceph `src/crush/mapper.c`: `crush_do_rule` and what it calls. The order of all comparisons is part of the
//! function, as is its arithmetic modulo 2^32.

use super::{Bucket, ChooseArgs, CrushMap, ITEM_NONE, Rule, StepOp, WEIGHT_ONE, Weights, msr};
use crate::hash::{crush_hash32_2, crush_hash32_3};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The most devices that a rule can be asked for. Pools have at most 255 replicas or shards.
pub const MAX_RESULT: usize = 1024;

/// The hashes that mapping one number may take. Real maps take some thousands, also with most devices out; a map
/// that takes more is made to waste our time, and its number stays unmapped.
const WORK_LIMIT: usize = 1 << 26;

/// A place that is not chosen yet, in a positional rule.
pub(super) const ITEM_UNDEF: i32 = ITEM_NONE - 1;

/// Memory for [`CrushMap::do_rule_with`], to be used again and again, also for other maps.
#[derive(Debug, Default)]
pub struct Workspace {
    permutations: Permutations,
    /// The items that the next step starts from, what the current step found, and the leaves below that.
    vectors: [Vec<i32>; 3],
    /// What multi-step retry rules have for the first two.
    msr: msr::Vectors,
}

impl CrushMap {
    /// Maps the number `x` to at most `result_max` devices with that rule.
    ///
    /// `weights` are the devices' in and out weights ([`WEIGHT_ONE`]: all in), by device; `choose_args` names the
    /// pool whose replacements for the map's weights apply, if any do. In the result of a positional rule
    /// [`ITEM_NONE`] stands where no device was found. No such rule, or a rule without sense: no devices.
    pub fn do_rule(
        &self,
        rule: u32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<i64>,
    ) -> Vec<i32> {
        let mut result = Vec::new();
        self.do_rule_with(&mut Workspace::default(), rule, x, result_max, weights, choose_args, &mut result);
        result
    }

    /// As [`do_rule`](Self::do_rule), without taking new memory once `workspace` and `result` have grown.
    #[allow(clippy::too_many_arguments)] // They are do_rule's, and where to work and put it.
    pub fn do_rule_with(
        &self,
        workspace: &mut Workspace,
        rule: u32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<i64>,
        result: &mut Vec<i32>,
    ) {
        result.clear();
        let Some(rule) = self.rule(rule) else { return };
        if result_max == 0 || result_max > MAX_RESULT {
            return;
        }
        workspace.permutations.start();
        let mut mapper = Mapper {
            map: self,
            choose_args: choose_args.and_then(|pool| self.choose_args_for(pool)),
            weights,
            x,
            permutations: &mut workspace.permutations,
            work_left: WORK_LIMIT,
        };
        let mapped = if rule.is_msr() {
            msr::run(&mut mapper, rule, result_max, &mut workspace.msr, result)
        } else {
            run(&mut mapper, rule, result_max, &mut workspace.vectors, result)
        };
        if mapped.is_err() {
            result.clear();
        }
    }
}

/// The work that one number may take is used up.
#[derive(Debug)]
pub(super) struct Exhausted;

/// What is the same all through the mapping of one number.
pub(super) struct Mapper<'a> {
    pub(super) map: &'a CrushMap,
    choose_args: Option<&'a ChooseArgs>,
    weights: &'a [u32],
    x: u32,
    permutations: &'a mut Permutations,
    work_left: usize,
}

/// What a bucket's choice means to a step that wants items of one type.
enum Found<'a> {
    /// It is of that type; the bucket that it is, if it is one.
    Wanted(Option<&'a Bucket>),
    /// It is a bucket of another type: go on in there.
    Deeper(&'a Bucket),
    /// It is a device or does not exist: there is nothing below.
    Bad,
}

impl<'a> Mapper<'a> {
    pub(super) fn spend(&mut self, work: usize) -> Result<(), Exhausted> {
        self.work_left = self.work_left.checked_sub(work).ok_or(Exhausted)?;
        Ok(())
    }

    /// The bucket's choice for attempt `r`; `None` if it is empty or broken.
    #[inline]
    pub(super) fn choose(
        &mut self,
        bucket: &Bucket,
        r: u32,
        position: usize,
    ) -> Result<Option<i32>, Exhausted> {
        // An attempt has costs of its own; comparing with what is chosen already is one.
        self.spend(1 + position / 8 + bucket.choice_cost())?;
        if let Weights::Uniform { .. } = bucket.weights {
            return self.choose_permuted(bucket, r);
        }
        let arg = self.choose_args.and_then(|args| args.get(&(!bucket.id as u32)));
        Ok(bucket.choose(self.x, r, arg, position))
    }

    /// The bucket's choice for attempt `r` as from a uniform bucket, whatever it is.
    fn choose_permuted(&mut self, bucket: &Bucket, r: u32) -> Result<Option<i32>, Exhausted> {
        let Some(place) = r.checked_rem(bucket.items.len() as u32) else { return Ok(None) };
        let (at, work) = self.permutations.item(bucket, self.x, place as usize);
        self.spend(work)?;
        Ok(bucket.items.get(at).copied())
    }

    /// Is the device out, for this number?
    pub(super) fn is_out(&self, device: i32) -> bool {
        let weight = usize::try_from(device).ok().and_then(|at| self.weights.get(at));
        match weight {
            Some(&weight) if weight >= WEIGHT_ONE => false,
            Some(&weight) => crush_hash32_2(self.x, device as u32) & 0xffff >= weight,
            None => true,
        }
    }

    fn find(&self, item: i32, kind: i32) -> Found<'a> {
        if item >= self.map.max_devices {
            return Found::Bad;
        }
        match self.map.bucket(item) {
            Some(bucket) if i32::from(bucket.kind) == kind => Found::Wanted(Some(bucket)),
            Some(bucket) => Found::Deeper(bucket),
            None if item >= 0 && kind == 0 => Found::Wanted(None),
            None => Found::Bad,
        }
    }
}

/// Permutations of buckets' items, as far as they are worked out for the current number.
#[derive(Debug, Default)]
struct Permutations {
    by_bucket: FxHashMap<i32, Permutation>,
    /// Counts the numbers mapped: what was worked out for another is void.
    round: u64,
}

#[derive(Debug, Default)]
struct Permutation {
    round: u64,
    /// Places in the bucket; those before `fixed` are final.
    places: Vec<u32>,
    fixed: usize,
}

impl Permutations {
    fn start(&mut self) {
        self.round += 1;
    }

    /// Which item of the bucket comes at `place` (below its size), and how much work that was.
    fn item(&mut self, bucket: &Bucket, x: u32, place: usize) -> (usize, usize) {
        let size = bucket.items.len();
        let draw = |n: usize| {
            let hash = crush_hash32_3(x, bucket.id as u32, n as u32) & bucket.hash_mask();
            hash as usize % (size - n)
        };
        // The first place, which most calls ask for, needs no list.
        if place == 0 {
            return (draw(0), 1);
        }
        let permutation = self.by_bucket.entry(bucket.id).or_default();
        let mut work = 1;
        if permutation.round != self.round {
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

/// The tunables of the "choose" steps, as a rule has set them.
#[derive(Clone, Copy)]
struct Settings {
    tries: u32,
    leaf_tries: u32,
    local_tries: u32,
    local_fallback_tries: u32,
    vary_r: u32,
    stable: bool,
}

fn run(
    mapper: &mut Mapper<'_>,
    rule: &Rule,
    result_max: usize,
    vectors: &mut [Vec<i32>; 3],
    result: &mut Vec<i32>,
) -> Result<(), Exhausted> {
    let map = mapper.map;
    let tunables = &map.tunables;
    let mut settings = Settings {
        // The tunable counts retries.
        tries: tunables.choose_total_tries.wrapping_add(1),
        leaf_tries: 0,
        local_tries: tunables.choose_local_tries,
        local_fallback_tries: tunables.choose_local_fallback_tries,
        vary_r: u32::from(tunables.chooseleaf_vary_r),
        stable: tunables.chooseleaf_stable != 0,
    };
    let [from, found, leaves] = vectors;
    from.clear();
    for step in &rule.steps {
        let value = u32::try_from(step.arg1).ok();
        match step.op {
            StepOp::TAKE if map.bucket(step.arg1).is_some() || (0..map.max_devices).contains(&step.arg1) => {
                from.clear();
                from.push(step.arg1);
            }
            StepOp::SET_CHOOSE_TRIES => settings.tries = value.filter(|&v| v > 0).unwrap_or(settings.tries),
            StepOp::SET_CHOOSELEAF_TRIES => {
                settings.leaf_tries = value.filter(|&v| v > 0).unwrap_or(settings.leaf_tries);
            }
            StepOp::SET_CHOOSE_LOCAL_TRIES => settings.local_tries = value.unwrap_or(settings.local_tries),
            StepOp::SET_CHOOSE_LOCAL_FALLBACK_TRIES => {
                settings.local_fallback_tries = value.unwrap_or(settings.local_fallback_tries);
            }
            StepOp::SET_CHOOSELEAF_VARY_R => settings.vary_r = value.unwrap_or(settings.vary_r),
            StepOp::SET_CHOOSELEAF_STABLE => {
                settings.stable = value.map_or(settings.stable, |stable| stable != 0);
            }
            StepOp::CHOOSE_FIRSTN
            | StepOp::CHOOSE_INDEP
            | StepOp::CHOOSELEAF_FIRSTN
            | StepOp::CHOOSELEAF_INDEP => {
                if from.is_empty() {
                    continue;
                }
                let to_leaf = matches!(step.op, StepOp::CHOOSELEAF_FIRSTN | StepOp::CHOOSELEAF_INDEP);
                let firstn = matches!(step.op, StepOp::CHOOSE_FIRSTN | StepOp::CHOOSELEAF_FIRSTN);
                for vector in [&mut *found, &mut *leaves] {
                    vector.clear();
                    vector.resize(result_max, ITEM_UNDEF);
                }
                let mut size = 0;
                for &item in &*from {
                    let Some(bucket) = map.bucket(item) else { continue };
                    let Some(wanted) = wanted(step.arg1, result_max) else { continue };
                    let out = &mut found[size..];
                    let leaves = to_leaf.then_some(&mut leaves[size..]);
                    size += if firstn {
                        let call = Firstn::new(settings, tunables.chooseleaf_descend_once != 0, step.arg2);
                        mapper.choose_firstn(bucket, &call, wanted, out, leaves)?
                    } else {
                        let call = Indep::new(settings, wanted, step.arg2);
                        let places = out.len().min(wanted as usize);
                        mapper.choose_indep(bucket, &call, 0..places, out, leaves)?;
                        places
                    };
                }
                std::mem::swap(from, if to_leaf { leaves } else { found });
                from.truncate(size);
            }
            StepOp::EMIT => {
                result.extend(from.drain(..).take(result_max - result.len()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// How many items a step asks for: a count of 0 or less is relative to the result's size.
fn wanted(count: i32, result_max: usize) -> Option<u32> {
    let wanted = if count > 0 { i64::from(count) } else { i64::from(count) + result_max as i64 };
    u32::try_from(wanted).ok().filter(|&wanted| wanted > 0)
}

/// What a "firstn" step, or its search for a leaf, is to choose, and how hard it tries.
#[derive(Clone, Copy)]
struct Firstn {
    kind: i32,
    tries: u32,
    leaf_tries: u32,
    settings: Settings,
    /// Added to the number of each attempt.
    base: u32,
}

impl Firstn {
    fn new(settings: Settings, descend_once: bool, kind: i32) -> Self {
        let leaf_tries = match settings.leaf_tries {
            0 if descend_once => 1,
            0 => settings.tries,
            tries => tries,
        };
        Self { kind, tries: settings.tries, leaf_tries, settings, base: 0 }
    }

    /// The search for a device below the item that attempt `r` chose.
    fn leaf(&self, r: u32) -> Self {
        let base = match self.settings.vary_r.checked_sub(1) {
            Some(shift) => (r as i32).wrapping_shr(shift) as u32,
            None => 0,
        };
        Self { kind: 0, tries: self.leaf_tries, leaf_tries: 0, settings: self.settings, base }
    }
}

/// What a "firstn" step has chosen so far, and where it puts more.
struct Chosen<'o> {
    items: &'o mut [i32],
    leaves: Option<&'o mut [i32]>,
    len: usize,
}

impl<'a> Mapper<'a> {
    /// Chooses up to `wanted` different items below `root`, one after another; returns how many it found.
    fn choose_firstn(
        &mut self,
        root: &'a Bucket,
        call: &Firstn,
        wanted: u32,
        items: &mut [i32],
        leaves: Option<&mut [i32]>,
    ) -> Result<usize, Exhausted> {
        let mut chosen = Chosen { items, leaves, len: 0 };
        for replica in 0..wanted {
            if chosen.len == chosen.items.len() {
                break;
            }
            if let Some(item) = self.choose_one(root, call, replica, &mut chosen)? {
                chosen.items[chosen.len] = item;
                chosen.len += 1;
            }
        }
        Ok(chosen.len)
    }

    /// Chooses one item more, and a leaf below it if leaves are asked for.
    fn choose_one(
        &mut self,
        root: &'a Bucket,
        call: &Firstn,
        replica: u32,
        chosen: &mut Chosen<'_>,
    ) -> Result<Option<i32>, Exhausted> {
        let Settings { local_tries, local_fallback_tries, .. } = call.settings;
        let mut failures = 0;
        'descent: loop {
            let mut bucket = root;
            let mut local_failures = 0;
            loop {
                let r = replica.wrapping_add(call.base).wrapping_add(failures);
                let size = bucket.items.len() as u32;
                let collides = if size == 0 {
                    self.spend(1)?;
                    false
                } else {
                    let permuted = local_fallback_tries > 0
                        && local_failures >= size >> 1
                        && local_failures > local_fallback_tries;
                    let choice = if permuted {
                        self.spend(1)?;
                        self.choose_permuted(bucket, r)?
                    } else {
                        self.choose(bucket, r, chosen.len)?
                    };
                    let Some(item) = choice else { return Ok(None) };
                    let child = match self.find(item, call.kind) {
                        Found::Wanted(child) => child,
                        Found::Deeper(child) => {
                            bucket = child;
                            continue;
                        }
                        Found::Bad => return Ok(None),
                    };
                    let collides = chosen.items[..chosen.len].contains(&item);
                    if !collides
                        && self.choose_leaf(item, child, call, r, chosen)?
                        && !(call.kind == 0 && self.is_out(item))
                    {
                        return Ok(Some(item));
                    }
                    collides
                };
                failures += 1;
                local_failures += 1;
                let again_here = (collides && local_failures <= local_tries)
                    || (local_fallback_tries > 0
                        && local_failures <= size.saturating_add(local_fallback_tries));
                if again_here {
                    continue;
                }
                if failures < call.tries {
                    continue 'descent;
                }
                return Ok(None);
            }
        }
    }

    /// Chooses the leaf that goes with an item, if one is asked for. Is there one?
    fn choose_leaf(
        &mut self,
        item: i32,
        child: Option<&'a Bucket>,
        call: &Firstn,
        r: u32,
        chosen: &mut Chosen<'_>,
    ) -> Result<bool, Exhausted> {
        let Some(leaves) = chosen.leaves.as_deref_mut() else { return Ok(true) };
        let leaf = match child {
            None => Some(item),
            Some(bucket) => {
                let replica = if call.settings.stable { 0 } else { chosen.len as u32 };
                let mut below = Chosen { items: leaves, leaves: None, len: chosen.len };
                self.choose_one(bucket, &call.leaf(r), replica, &mut below)?
            }
        };
        if let Some(leaf) = leaf {
            leaves[chosen.len] = leaf;
        }
        Ok(leaf.is_some())
    }
}

/// What an "indep" step, or its search for a leaf, is to choose, and how hard it tries.
#[derive(Clone, Copy)]
struct Indep {
    kind: i32,
    tries: u32,
    leaf_tries: u32,
    /// The places of the whole step: attempts are numbered so that places do not share them.
    wanted: u32,
    /// Added to the number of each attempt.
    base: u32,
}

impl Indep {
    fn new(settings: Settings, wanted: u32, kind: i32) -> Self {
        Self { kind, tries: settings.tries, leaf_tries: settings.leaf_tries.max(1), wanted, base: 0 }
    }

    /// The search for a device below the item that attempt `r` chose.
    fn leaf(&self, r: u32) -> Self {
        Self { kind: 0, tries: self.leaf_tries, leaf_tries: 0, wanted: self.wanted, base: r }
    }
}

impl<'a> Mapper<'a> {
    /// Chooses an item below `root` for each place of `range`, so that a failure at one place changes the others
    /// as little as can be.
    fn choose_indep(
        &mut self,
        root: &'a Bucket,
        call: &Indep,
        range: Range<usize>,
        items: &mut [i32],
        mut leaves: Option<&mut [i32]>,
    ) -> Result<(), Exhausted> {
        items[range.clone()].fill(ITEM_UNDEF);
        if let Some(leaves) = leaves.as_deref_mut() {
            leaves[range.clone()].fill(ITEM_UNDEF);
        }
        let mut left = range.len();
        let mut failures = 0;
        while left > 0 && failures < call.tries {
            for place in range.clone() {
                if items[place] != ITEM_UNDEF {
                    continue;
                }
                let taken = &items[range.clone()];
                let leaves = leaves.as_deref_mut();
                if let Some(item) =
                    self.choose_for(root, call, place, range.start, failures, taken, leaves)?
                {
                    items[place] = item;
                    left -= 1;
                }
            }
            failures += 1;
        }
        give_up(&mut items[range.clone()]);
        if let Some(leaves) = leaves {
            give_up(&mut leaves[range]);
        }
        Ok(())
    }

    /// One attempt at a place: an item, [`ITEM_NONE`] if there will never be one, or nothing this time.
    #[allow(clippy::too_many_arguments)] // The state of the loops of its one caller.
    fn choose_for(
        &mut self,
        root: &'a Bucket,
        call: &Indep,
        place: usize,
        position: usize,
        failures: u32,
        taken: &[i32],
        leaves: Option<&mut [i32]>,
    ) -> Result<Option<i32>, Exhausted> {
        let mut bucket = root;
        loop {
            let size = bucket.items.len() as u32;
            if size == 0 {
                self.spend(1)?;
                return Ok(None);
            }
            // Else a uniform bucket of such a size would have the same items for the same place at each attempt.
            let shift = matches!(bucket.weights, Weights::Uniform { .. }) && size.is_multiple_of(call.wanted);
            let stride = call.wanted.wrapping_add(u32::from(shift));
            let r = (place as u32).wrapping_add(call.base).wrapping_add(stride.wrapping_mul(failures));
            let choice = self.choose(bucket, r, position)?;
            let (item, child) = match choice.map(|item| (item, self.find(item, call.kind))) {
                Some((item, Found::Wanted(child))) => (item, child),
                Some((_, Found::Deeper(child))) => {
                    bucket = child;
                    continue;
                }
                Some((_, Found::Bad)) | None => {
                    if let Some(leaves) = leaves {
                        leaves[place] = ITEM_NONE;
                    }
                    return Ok(Some(ITEM_NONE));
                }
            };
            if taken.contains(&item) {
                return Ok(None);
            }
            if let Some(leaves) = leaves {
                match child {
                    None => leaves[place] = item,
                    Some(child) => self.choose_indep(child, &call.leaf(r), place..place + 1, leaves, None)?,
                }
                if leaves[place] == ITEM_NONE {
                    return Ok(None);
                }
            }
            let out = call.kind == 0 && self.is_out(item);
            return Ok((!out).then_some(item));
        }
    }
}

/// Leaves the places that are still not chosen without an item.
fn give_up(items: &mut [i32]) {
    for item in items.iter_mut().filter(|item| **item == ITEM_UNDEF) {
        *item = ITEM_NONE;
    }
}
