//! Settings of a rule's steps.

use crate::crush::rule::{Step, StepOp};
use crate::crush::tunables::Tunables;

#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) tries: u32,
    /// Attempts at a leaf; 0: default.
    pub(super) leaf_tries: u32,
    pub(super) descend_once: bool,
    pub(super) local_tries: u32,
    pub(super) local_fallback_tries: u32,
    pub(super) vary_r: u32,
    pub(super) stable: bool,
}

impl Settings {
    pub(super) fn of(tunables: &Tunables) -> Self {
        Self {
            // The tunable counts retries, the step that overrides it counts attempts.
            tries: tunables.choose_total_tries.wrapping_add(1),
            leaf_tries: 0,
            descend_once: tunables.chooseleaf_descend_once != 0,
            local_tries: tunables.choose_local_tries,
            local_fallback_tries: tunables.choose_local_fallback_tries,
            vary_r: u32::from(tunables.chooseleaf_vary_r),
            stable: tunables.chooseleaf_stable != 0,
        }
    }

    /// Applies a step that changes a setting. Ignores invalid values.
    pub(super) fn set(&mut self, step: &Step) {
        let Ok(value) = u32::try_from(step.arg1) else { return };
        match step.op {
            StepOp::SET_CHOOSE_TRIES if value > 0 => self.tries = value,
            StepOp::SET_CHOOSELEAF_TRIES if value > 0 => self.leaf_tries = value,
            StepOp::SET_CHOOSE_LOCAL_TRIES => self.local_tries = value,
            StepOp::SET_CHOOSE_LOCAL_FALLBACK_TRIES => self.local_fallback_tries = value,
            StepOp::SET_CHOOSELEAF_VARY_R => self.vary_r = value,
            StepOp::SET_CHOOSELEAF_STABLE => self.stable = value != 0,
            _ => {}
        }
    }
}
