//! The placement function: maps a number to a list of devices.
//!
//! Source: ceph `src/crush/mapper.c`: `crush_do_rule` and its callees. The order of all comparisons is part of the
//! function, as is its arithmetic modulo 2^32.

mod firstn;
mod indep;
mod msr;
mod permutation;
mod settings;
mod state;
mod steps;

use super::map::CrushMap;
use permutation::Permutations;
use state::Mapper;

/// Maximum number of requested devices. Pools have at most 255 replicas or shards.
pub const MAX_RESULT: usize = 256;

/// Maximum number of hashes for one input. Real maps need a few thousand, even with most devices out; a map
/// that needs more is malicious, and its input stays unmapped.
const WORK_LIMIT: usize = 1 << 24;

/// Reusable memory for [`CrushMap::do_rule_with`], also across maps.
#[derive(Debug, Default)]
pub struct Workspace {
    permutations: Permutations,
    steps: steps::Vectors,
    msr: msr::Vectors,
}

impl CrushMap {
    /// Maps the number `x` to at most `result_max` devices by a rule.
    ///
    /// `weights` are the in/out weights of the devices ([`WEIGHT_ONE`](super::WEIGHT_ONE): fully in), by id; `choose_args` is the
    /// pool whose alternative weights apply, if any. In the result of a positional rule,
    /// [`ITEM_NONE`](super::ITEM_NONE) stands for a missing device. An unknown or invalid rule yields no devices.
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

    /// Like [`do_rule`](Self::do_rule), without allocations once `workspace` and `result` have grown.
    #[allow(clippy::too_many_arguments)] // Those of do_rule, workspace and result.
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
