//! "indep": chooses an item for each place, for shards of erasure coded data. A failure leaves its place empty.
//!
//! Source: ceph `src/crush/mapper.c`, `crush_choose_indep`.

use super::settings::Settings;
use super::state::{Exhausted, Found, ITEM_UNDEF, Mapper};
use crate::crush::bucket::{Bucket, Weights};
use crate::crush::map::ITEM_NONE;
use std::ops::Range;

#[derive(Clone, Copy)]
pub(super) struct Indep {
    kind: i32,
    tries: u32,
    leaf_tries: u32,
    /// Number of places of the whole step: the stride of the attempt numbers, so that places do not share them.
    wanted: u32,
    /// Offset of the attempt numbers.
    base: u32,
}

impl Indep {
    pub(super) fn new(settings: Settings, wanted: u32, kind: i32) -> Self {
        Self { kind, tries: settings.tries, leaf_tries: settings.leaf_tries.max(1), wanted, base: 0 }
    }

    /// Returns the parameters of the search for a device below the item of attempt `r`.
    fn leaf(&self, r: u32) -> Self {
        Self { kind: 0, tries: self.leaf_tries, leaf_tries: 0, wanted: self.wanted, base: r }
    }
}

impl<'a> Mapper<'a> {
    /// Chooses an item below `root` for each place of `range`, such that a failure at one place changes the others
    /// as little as possible.
    pub(super) fn choose_indep(
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

    /// Makes one attempt at a place: returns an item, [`ITEM_NONE`] if there will never be one, or `None` for a retry.
    #[allow(clippy::too_many_arguments)] // The loop state of its only caller.
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
            // Otherwise a uniform bucket of such a size would yield the same items for the same place at each attempt.
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

fn give_up(items: &mut [i32]) {
    for item in items.iter_mut().filter(|item| **item == ITEM_UNDEF) {
        *item = ITEM_NONE;
    }
}
