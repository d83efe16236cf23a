//! Rules, and the steps that they are made of.

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
    /// An item, a count (0 or less: relative to the number that the rule is asked for), or a tunable's value.
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
