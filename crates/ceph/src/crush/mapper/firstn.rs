//! "firstn": chooses items one after another, for replicas. Later items take the place of failed ones.
//!
//! Source: ceph `src/crush/mapper.c`, `crush_choose_firstn`.

use super::settings::Settings;
use super::state::{Exhausted, Found, Mapper};
use crate::crush::bucket::Bucket;

#[derive(Clone, Copy)]
pub(super) struct Firstn {
    kind: i32,
    tries: u32,
    leaf_tries: u32,
    settings: Settings,
    /// Offset of the attempt numbers.
    base: u32,
}

impl Firstn {
    pub(super) fn new(settings: Settings, kind: i32) -> Self {
        let leaf_tries = match settings.leaf_tries {
            0 if settings.descend_once => 1,
            0 => settings.tries,
            tries => tries,
        };
        Self { kind, tries: settings.tries, leaf_tries, settings, base: 0 }
    }

    /// Returns the parameters of the search for a device below the item of attempt `r`.
    fn leaf(&self, r: u32) -> Self {
        let base = match self.settings.vary_r.checked_sub(1) {
            Some(shift) => (r as i32).wrapping_shr(shift) as u32,
            None => 0,
        };
        Self { kind: 0, tries: self.leaf_tries, leaf_tries: 0, settings: self.settings, base }
    }
}

struct Chosen<'o> {
    items: &'o mut [i32],
    leaves: Option<&'o mut [i32]>,
    len: usize,
}

enum Attempt {
    /// The item is of the right type, in, and new.
    Chosen(i32),
    /// The item is unsuitable, but another attempt may succeed.
    Failed {
        collides: bool,
    },
    Hopeless,
}

impl<'a> Mapper<'a> {
    /// Chooses up to `wanted` different items below `root`, one after another; returns their number.
    pub(super) fn choose_firstn(
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

    fn choose_one(
        &mut self,
        root: &'a Bucket,
        call: &Firstn,
        replica: u32,
        chosen: &mut Chosen<'_>,
    ) -> Result<Option<i32>, Exhausted> {
        let Settings { local_tries, local_fallback_tries, .. } = call.settings;
        let mut bucket = root;
        let (mut failures, mut local_failures) = (0, 0);
        loop {
            let r = replica.wrapping_add(call.base).wrapping_add(failures);
            let collides = match self.attempt(&mut bucket, call, r, local_failures, chosen)? {
                Attempt::Chosen(item) => return Ok(Some(item)),
                Attempt::Hopeless => return Ok(None),
                Attempt::Failed { collides } => collides,
            };
            failures += 1;
            local_failures += 1;
            let everywhere = (bucket.items.len() as u32).saturating_add(local_fallback_tries);
            let again_here = (collides && local_failures <= local_tries)
                || (local_fallback_tries > 0 && local_failures <= everywhere);
            if !again_here {
                if failures >= call.tries {
                    return Ok(None);
                }
                bucket = root;
                local_failures = 0;
            }
        }
    }

    /// Descends from `bucket`, and sets it to the bucket of the last choice.
    fn attempt(
        &mut self,
        bucket: &mut &'a Bucket,
        call: &Firstn,
        r: u32,
        local_failures: u32,
        chosen: &mut Chosen<'_>,
    ) -> Result<Attempt, Exhausted> {
        let fallback_tries = call.settings.local_fallback_tries;
        loop {
            let size = bucket.items.len() as u32;
            if size == 0 {
                self.spend(1)?;
                return Ok(Attempt::Failed { collides: false });
            }
            let permuted =
                fallback_tries > 0 && local_failures >= size >> 1 && local_failures > fallback_tries;
            let choice =
                if permuted { self.choose_permuted(bucket, r)? } else { self.choose(bucket, r, chosen.len)? };
            let Some(item) = choice else { return Ok(Attempt::Hopeless) };
            let child = match self.find(item, call.kind) {
                Found::Wanted(child) => child,
                Found::Deeper(child) => {
                    *bucket = child;
                    continue;
                }
                Found::Bad => return Ok(Attempt::Hopeless),
            };
            if chosen.items[..chosen.len].contains(&item) {
                return Ok(Attempt::Failed { collides: true });
            }
            let fits =
                self.choose_leaf(item, child, call, r, chosen)? && !(call.kind == 0 && self.is_out(item));
            return Ok(if fits { Attempt::Chosen(item) } else { Attempt::Failed { collides: false } });
        }
    }

    /// Chooses the leaf below an item, if requested. Returns whether there is one.
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
