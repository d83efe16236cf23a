//! Rules with retries over all their steps ("multi-step retry", MSR).
//!
//! Such a rule consists of settings, followed by blocks: take a bucket, choose (one step per level), emit. A block
//! divides its places evenly among the items that its first step chooses, each share among the items that the second
//! step chooses below, and so on. A device that is out leaves its place open for the next descent from
//! the top. Sources: ceph `src/crush/mapper.c`, `crush_msr_do_rule` and its callees; `doc/dev/crush-msr.rst`.

use super::state::{Exhausted, ITEM_UNDEF, Mapper};
use crate::crush::bucket::Bucket;
use crate::crush::map::ITEM_NONE;
use crate::crush::rule::{Rule, Step, StepOp};
use crate::crush::tunables::MsrTunables;
use std::ops::Range;

/// Maximum number of choose steps in a block: more than the levels of any hierarchy. Each takes a level of recursion.
const MAX_STEPS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// For each choose step of a block, the items chosen for each place: a share of places starts with the items
    /// used for it.
    used: Vec<i32>,
    /// For each level of recursion, and each share there, the item to remove at the end.
    undo: Vec<i32>,
}

/// Maps by a rule. A rule of another form maps to nothing.
pub(super) fn run(
    mapper: &mut Mapper<'_>,
    rule: &Rule,
    result_max: usize,
    vectors: &mut Vectors,
    result: &mut Vec<i32>,
) -> Result<(), Exhausted> {
    let mut tunables = mapper.map.tunables.msr.unwrap_or(MsrTunables::DEFAULT);
    let mut blocks = rule.steps.as_slice();
    while let Some((step, rest)) = blocks.split_first() {
        match step.op {
            StepOp::SET_MSR_DESCENTS => tunables.descents = step.arg1 as u32,
            StepOp::SET_MSR_COLLISION_TRIES => tunables.collision_tries = step.arg1 as u32,
            _ => break,
        }
        blocks = rest;
    }
    result.resize(result_max, ITEM_NONE);
    let mut search = Search {
        mapper,
        positional: rule.kind == Rule::MSR_INDEP,
        tunables,
        steps: &[],
        undo: &mut vectors.undo,
        used: &mut vectors.used,
        result,
        found: 0,
    };
    let sound = search.run_blocks(blocks)?;
    let found = search.found;
    if !sound {
        result.clear();
    } else if rule.kind == Rule::MSR_FIRSTN {
        result.truncate(found);
    }
    Ok(())
}

struct Search<'s, 'a> {
    mapper: &'s mut Mapper<'a>,
    positional: bool,
    tunables: MsrTunables,
    steps: &'s [Step],
    used: &'s mut Vec<i32>,
    undo: &'s mut Vec<i32>,
    result: &'s mut [i32],
    found: usize,
}

impl<'s, 'a> Search<'s, 'a> {
    /// Runs all blocks. Returns whether they all have the right form.
    fn run_blocks(&mut self, mut steps: &'s [Step]) -> Result<bool, Exhausted> {
        let places = self.result.len();
        let mut start = 0;
        while let Some((take, rest)) = steps.split_first() {
            let choices = rest.iter().take_while(|step| step.op == StepOp::CHOOSE_MSR).count();
            let (choices, rest) = rest.split_at(choices);
            let Some((emit, rest)) = rest.split_first() else { return Ok(false) };
            let right = take.op == StepOp::TAKE && emit.op == StepOp::EMIT && choices.len() <= MAX_STEPS;
            let width =
                choices.iter().try_fold(1usize, |width, step| width.checked_mul(shares(step, places)?));
            let (true, Some(width), Some(root)) = (right, width, self.mapper.map.bucket(take.arg1)) else {
                return Ok(false);
            };
            if choices.is_empty() {
                return Ok(false);
            }
            let end = start + width.min(places - start);
            self.steps = choices;
            self.run_block(root, width, start..end)?;
            start = end;
            steps = rest;
        }
        Ok(true)
    }

    fn run_block(&mut self, root: &'a Bucket, width: usize, places: Range<usize>) -> Result<(), Exhausted> {
        self.used.clear();
        self.used.resize(self.steps.len() * self.result.len(), ITEM_UNDEF);
        self.undo.clear();
        let full = self.found + places.len();
        for descent in 0..self.tunables.descents {
            if self.found >= full {
                break;
            }
            self.mapper.spend(1)?;
            self.choose(root, 0, width, places.clone(), descent)?;
        }
        Ok(())
    }

    /// Chooses devices for the open ones of `places`, below `bucket`, from the block's step `level` on. This step and
    /// the later ones make `width` places. Returns the number of filled ones.
    fn choose(
        &mut self,
        bucket: &'a Bucket,
        level: usize,
        width: usize,
        places: Range<usize>,
        descent: u32,
    ) -> Result<usize, Exhausted> {
        let step = self.steps[level];
        let Some(length) = shares(&step, self.result.len()).map(|shares| width / shares) else {
            return Ok(0);
        };
        let last = level + 1 == self.steps.len();
        let undo_base = self.undo.len();
        let mut filled = 0;
        for (index, start) in places.clone().step_by(length).enumerate() {
            let share = start..places.end.min(start.saturating_add(length));
            self.undo.push(ITEM_UNDEF);
            let leaves = self.steps.len() - 1;
            if !self.vector(leaves)[share.clone()].contains(&ITEM_UNDEF) {
                continue;
            }
            let Some(item) = self.choose_unused(bucket, level, &places, &share, index, descent)? else {
                continue;
            };
            if step.arg2 == 0 {
                // Only the last step can choose devices, one per place.
                if !last || length != 1 || self.mapper.is_out(item) {
                    continue;
                }
                self.push_used(level, &share, item);
                self.emit(start, item);
                filled += 1;
            } else if let (false, Some(child)) = (last, self.mapper.map.bucket(item)) {
                let below = self.choose(child, level + 1, length, share.clone(), descent)?;
                if self.push_used(level, &share, item) && below == 0 {
                    // It counts as used until the end of this pass, so that an out device changes little else.
                    self.undo[undo_base + index] = item;
                }
                filled += below;
            }
        }
        for (index, start) in places.clone().step_by(length).enumerate() {
            let item = self.undo[undo_base + index];
            if item != ITEM_UNDEF {
                self.pop_used(level, &(start..places.end.min(start.saturating_add(length))), item);
            }
        }
        self.undo.truncate(undo_base);
        Ok(filled)
    }

    /// Chooses an item for a share that no other share of `places` uses.
    fn choose_unused(
        &mut self,
        bucket: &'a Bucket,
        level: usize,
        places: &Range<usize>,
        share: &Range<usize>,
        index: usize,
        descent: u32,
    ) -> Result<Option<i32>, Exhausted> {
        for attempt in 0..self.tunables.collision_tries {
            self.mapper.spend(1 + places.len() / 8)?;
            let Some(item) = self.descend(bucket, self.steps[level].arg2, descent, attempt, index)? else {
                continue;
            };
            let first = places.clone().find(|&place| self.vector(level)[place] == item);
            if first.is_none_or(|place| share.contains(&place)) {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn descend(
        &mut self,
        mut bucket: &'a Bucket,
        kind: i32,
        descent: u32,
        attempt: u32,
        index: usize,
    ) -> Result<Option<i32>, Exhausted> {
        let row = descent.wrapping_mul(self.result.len() as u32).wrapping_add(index as u32);
        let r = (row << 16).wrapping_add(attempt);
        loop {
            let Some(item) = self.mapper.choose(bucket, r, index)? else { return Ok(None) };
            if item >= 0 {
                return Ok(Some(item));
            }
            let Some(child) = self.mapper.map.bucket(item) else { return Ok(None) };
            if i32::from(child.kind) == kind {
                return Ok(Some(item));
            }
            bucket = child;
        }
    }

    /// Returns the used items of each place at a step.
    fn vector(&mut self, level: usize) -> &mut [i32] {
        let places = self.result.len();
        &mut self.used[level * places..(level + 1) * places]
    }

    /// Adds an item to the used ones of a share. Returns whether it was new.
    fn push_used(&mut self, level: usize, share: &Range<usize>, item: i32) -> bool {
        let used = &mut self.vector(level)[share.clone()];
        match used.iter_mut().find(|used| **used == item || **used == ITEM_UNDEF) {
            Some(free) if *free == ITEM_UNDEF => {
                *free = item;
                true
            }
            _ => false,
        }
    }

    /// Removes an item from the used ones of a share if it was added last.
    fn pop_used(&mut self, level: usize, share: &Range<usize>, item: i32) {
        let used = &mut self.vector(level)[share.clone()];
        if let Some(last) = used.iter_mut().rev().find(|used| **used != ITEM_UNDEF)
            && *last == item
        {
            *last = ITEM_UNDEF;
        }
    }

    fn emit(&mut self, place: usize, item: i32) {
        let at = if self.positional { place } else { self.found };
        self.result[at] = item;
        self.found += 1;
    }
}

/// Returns the number of items that a step chooses: 0 stands for the number of places.
fn shares(step: &Step, places: usize) -> Option<usize> {
    match step.arg1 {
        0 => Some(places),
        shares => usize::try_from(shares).ok(),
    }
}

#[cfg(test)]
mod tests {
    use crate::crush::{
        Bucket, ChooseArg, ChooseArgs, CrushMap, ITEM_NONE, Layout, Rule, Step, StepOp, WEIGHT_ONE,
    };

    fn map(kind: u8, choose_args: bool) -> CrushMap {
        const W: u32 = WEIGHT_ONE;
        let mut map = CrushMap::flat(&[0, 1, 2, 3], Layout::OneHost);
        map.buckets = vec![
            Some(Bucket::straw2(-1, 2, [(-2, 2 * W), (-3, 2 * W)])),
            Some(Bucket::straw2(-2, 1, [(0, W), (1, W)])),
            Some(Bucket::straw2(-3, 1, [(2, W), (3, W)])),
        ];
        let step = |op, arg1, arg2| Step { op, arg1, arg2 };
        let steps = vec![
            step(StepOp::TAKE, -1, 0),
            step(StepOp::CHOOSE_MSR, 2, 1),
            step(StepOp::CHOOSE_MSR, 2, 0),
            step(StepOp::EMIT, 0, 0),
        ];
        map.rules = vec![Some(Rule { ruleset: 0, kind, min_size: 1, max_size: 100, steps })];
        if choose_args {
            let arg = |weight_set: [[u32; 2]; 2], ids: [i32; 2]| ChooseArg {
                weight_set: weight_set.iter().map(|weights| weights.to_vec()).collect(),
                ids: ids.to_vec(),
            };
            let args = ChooseArgs::from([
                (0, arg([[2 * W, W], [W, 2 * W]], [-20, 30])),
                (1, arg([[W, 0], [0, W]], [-450, 30])),
                (2, arg([[W, 0], [0, W]], [-20, -25])),
            ]);
            map.choose_args.insert(7, args);
        }
        map
    }

    fn check(map: &CrushMap, first: u32, expected: &[&[i32]]) {
        for (x, expected) in (first..).zip(expected) {
            let weights = [WEIGHT_ONE, 0, WEIGHT_ONE, WEIGHT_ONE];
            assert_eq!(map.do_rule(0, x, 3, &weights, Some(7)), *expected, "x {x}");
        }
    }

    // Expected: Ceph 20.2's src/crush/mapper.c.

    #[test]
    fn replicas_are_placed_as_by_ceph() {
        let (a, b): (&[i32], &[i32]) = (&[3, 2, 0], &[2, 3, 0]);
        let (c, d): (&[i32], &[i32]) = (&[0, 3], &[0, 2]);
        let (e, f): (&[i32], &[i32]) = (&[3, 0], &[2, 0]);
        let expected =
            [a, c, e, a, f, a, f, d, d, d, d, a, c, c, b, a, c, f, a, b, b, c, a, c, a, e, b, c, a, b];
        check(&map(Rule::MSR_FIRSTN, false), 0, &expected);
    }

    #[test]
    fn replicas_are_placed_with_alternative_weights_and_ids() {
        let (a, b): (&[i32], &[i32]) = (&[0, 2], &[2, 3, 0]);
        let expected =
            [a, b, a, b, a, b, a, a, a, b, a, a, a, a, a, a, a, a, a, a, a, a, b, a, b, a, a, a, a, a];
        check(&map(Rule::MSR_FIRSTN, true), 0, &expected);
    }

    #[test]
    fn shards_are_placed_with_alternative_weights_and_ids() {
        let (a, b): (&[i32], &[i32]) = (&[0, ITEM_NONE, 2], &[2, 3, 0]);
        let expected = [b, a, b, b, a, b, a, a, a, a, a, b, a, a, a, a, a, b, a, a, a, a, a, a];
        check(&map(Rule::MSR_INDEP, true), 76, &expected);
    }

    #[test]
    fn rules_of_another_form_map_to_nothing() {
        let step = |op, arg1, arg2| Step { op, arg1, arg2 };
        let take = step(StepOp::TAKE, -1, 0);
        let emit = step(StepOp::EMIT, 0, 0);
        let choose = step(StepOp::CHOOSE_MSR, 2, 0);
        let rules = [
            vec![take, step(StepOp::CHOOSE_FIRSTN, 2, 0), emit],
            vec![emit],
            vec![take, choose],
            vec![take, choose, emit, emit],
            vec![take, emit],
            vec![step(StepOp::TAKE, 0, 0), choose, emit],
            vec![step(StepOp::TAKE, -9, 0), choose, emit],
            vec![take, step(StepOp::CHOOSE_MSR, -1, 0), emit],
            vec![take, choose, emit, step(StepOp::SET_MSR_DESCENTS, 5, 0)],
            [vec![take], vec![step(StepOp::CHOOSE_MSR, i32::MAX, 1); 60], vec![emit]].concat(),
            [vec![take], vec![step(StepOp::CHOOSE_MSR, 1, 1); 65], vec![emit]].concat(),
        ];
        for steps in rules {
            let mut map = map(Rule::MSR_INDEP, false);
            map.rules[0].as_mut().unwrap().steps = steps.clone();
            let found = map.do_rule(0, 1, 3, &[WEIGHT_ONE; 4], None);
            assert!(found.is_empty(), "{steps:?}: {found:?}");
        }
    }

    #[test]
    fn a_rule_may_lower_its_own_tries() {
        let mut map = map(Rule::MSR_INDEP, false);
        let rule = map.rules[0].as_mut().unwrap();
        rule.steps.insert(0, Step { op: StepOp::SET_MSR_DESCENTS, arg1: 0, arg2: 0 });
        assert_eq!(map.do_rule(0, 1, 3, &[WEIGHT_ONE; 4], None), [ITEM_NONE; 3]);
    }
}
