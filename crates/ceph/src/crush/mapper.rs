//! The function from a number to a list of devices.
//!
//! Source: ceph `src/crush/mapper.c`: `crush_do_rule` and what it calls. The order of all comparisons is part of the
//! function, as is its arithmetic modulo 2^32.

use super::bucket::{Bucket, Weights};
use super::permutation::Permutations;
use super::{ChooseArgs, CrushMap, ITEM_NONE, WEIGHT_ONE, msr, steps};
use crate::hash::crush_hash32_2;

/// The most devices that a rule can be asked for. Pools have at most 255 replicas or shards.
pub const MAX_RESULT: usize = 256;

/// The hashes that mapping one number may take. Real maps take some thousands, also with most devices out; a map
/// that takes more is made to waste our time, and its number stays unmapped.
const WORK_LIMIT: usize = 1 << 24;

/// A place that is not chosen yet, in a positional rule.
pub(super) const ITEM_UNDEF: i32 = ITEM_NONE - 1;

/// Memory for [`CrushMap::do_rule_with`], to be used again and again, also for other maps.
#[derive(Debug, Default)]
pub struct Workspace {
    permutations: Permutations,
    steps: steps::Vectors,
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
            steps::run(&mut mapper, rule, result_max, &mut workspace.steps, result)
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
pub(super) enum Found<'a> {
    /// It is of that type; the bucket that it is, if it is one.
    Wanted(Option<&'a Bucket>),
    /// It is a bucket of another type: go on in there.
    Deeper(&'a Bucket),
    /// It is a device or does not exist: there is nothing below.
    Bad,
}

impl<'a> Mapper<'a> {
    /// Takes note of work that is about to be done.
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
    pub(super) fn choose_permuted(&mut self, bucket: &Bucket, r: u32) -> Result<Option<i32>, Exhausted> {
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

    /// What a bucket's choice is to a step that wants items of type `kind`.
    pub(super) fn find(&self, item: i32, kind: i32) -> Found<'a> {
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
