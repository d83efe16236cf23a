//! State of one mapping.

use super::permutation::Permutations;
use crate::crush::bucket::{Bucket, Weights};
use crate::crush::choose_args::ChooseArgs;
use crate::crush::map::{CrushMap, ITEM_NONE, WEIGHT_ONE};
use crate::hash::crush_hash32_2;

/// Undefined place of a positional rule.
pub(super) const ITEM_UNDEF: i32 = ITEM_NONE - 1;

#[derive(Debug)]
pub(super) struct Exhausted;

pub(super) struct Mapper<'a> {
    pub(super) map: &'a CrushMap,
    pub(super) choose_args: Option<&'a ChooseArgs>,
    pub(super) weights: &'a [u32],
    pub(super) x: u32,
    pub(super) permutations: &'a mut Permutations,
    pub(super) work_left: usize,
}

pub(super) enum Found<'a> {
    Wanted(Option<&'a Bucket>),
    /// A bucket of another type: descend.
    Deeper(&'a Bucket),
    /// A device or unknown item: there is nothing below.
    Bad,
}

impl<'a> Mapper<'a> {
    pub(super) fn spend(&mut self, work: usize) -> Result<(), Exhausted> {
        self.work_left = self.work_left.checked_sub(work).ok_or(Exhausted)?;
        Ok(())
    }

    /// Returns the bucket's choice for attempt `r`; `None` if it is empty or invalid.
    #[inline]
    pub(super) fn choose(
        &mut self,
        bucket: &Bucket,
        r: u32,
        position: usize,
    ) -> Result<Option<i32>, Exhausted> {
        // An attempt has its own cost, such as the comparison with the chosen items.
        self.spend(1 + position / 8 + bucket.choice_cost())?;
        if let Weights::Uniform { .. } = bucket.weights {
            return self.choose_permuted(bucket, r);
        }
        let arg = self.choose_args.and_then(|args| args.get(&(!bucket.id as u32)));
        Ok(bucket.choose(self.x, r, arg, position))
    }

    /// Returns the bucket's choice for attempt `r` as if it were uniform.
    pub(super) fn choose_permuted(&mut self, bucket: &Bucket, r: u32) -> Result<Option<i32>, Exhausted> {
        let Some(place) = r.checked_rem(bucket.items.len() as u32) else { return Ok(None) };
        let (at, work) = self.permutations.item(bucket, self.x, place as usize);
        self.spend(work)?;
        Ok(bucket.items.get(at).copied())
    }

    pub(super) fn is_out(&self, device: i32) -> bool {
        let weight = usize::try_from(device).ok().and_then(|at| self.weights.get(at));
        match weight {
            Some(&weight) if weight >= WEIGHT_ONE => false,
            Some(&weight) => crush_hash32_2(self.x, device as u32) & 0xffff >= weight,
            None => true,
        }
    }

    /// Classifies a bucket's choice for a step that wants items of type `kind`.
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
