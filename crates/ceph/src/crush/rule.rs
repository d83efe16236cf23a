//! Rules and their steps.

/// Recipe for a list of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Number of the rule; formerly shared by rules for pools of different sizes.
    pub ruleset: u8,
    /// Type of its pools, such as [`Rule::REPLICATED`].
    pub kind: u8,
    /// Smallest size of its pools; unused since Ceph 17.
    pub min_size: u8,
    /// Largest size of its pools; unused since Ceph 17.
    pub max_size: u8,
    /// Steps in order.
    pub steps: Vec<Step>,
}

impl Rule {
    /// Replicated pools.
    pub const REPLICATED: u8 = 1;
    /// Erasure coded pools.
    pub const ERASURE: u8 = 3;
    /// Replicated pools, with retries over all steps ("multi-step retry", Ceph 19.2).
    pub const MSR_FIRSTN: u8 = 4;
    /// Erasure coded pools, with retries over all steps.
    pub const MSR_INDEP: u8 = 5;

    /// Returns whether the rule retries over all its steps.
    pub fn is_msr(&self) -> bool {
        matches!(self.kind, Self::MSR_FIRSTN | Self::MSR_INDEP)
    }
}

/// Step of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Operation.
    pub op: StepOp,
    /// Item, count (0 or less: relative to the requested number), or value of a tunable.
    pub arg1: i32,
    /// Item type.
    pub arg2: i32,
}

/// Operation of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepOp(
    /// Number on the wire.
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
