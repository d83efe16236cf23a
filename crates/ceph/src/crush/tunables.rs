//! How hard rules try.

/// How hard rules try, and with which of the historic flaws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket after a collision.
    pub choose_local_tries: u32,
    /// Retries in the same bucket with a permutation of its items.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top.
    pub choose_total_tries: u32,
    /// Does chooseleaf try once only below the item that it chose?
    pub chooseleaf_descend_once: u32,
    /// Does chooseleaf start below at another place for each attempt above (shifted right by one less)?
    pub chooseleaf_vary_r: u8,
    /// Which way straw lengths are calculated.
    pub straw_calc_version: u8,
    /// The kinds of buckets that may be made: bit n is algorithm n.
    pub allowed_bucket_algs: u32,
    /// Does chooseleaf start below at the same place for each position?
    pub chooseleaf_stable: u8,
    /// Those of multi-step retry rules: encodings for readers before Ceph 19.2 have none.
    pub msr: Option<MsrTunables>,
}

/// How hard multi-step retry rules try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsrTunables {
    /// Attempts from the top.
    pub descents: u32,
    /// Attempts in place after a collision.
    pub collision_tries: u32,
}

impl MsrTunables {
    /// What holds where nothing is said.
    pub const DEFAULT: Self = Self { descents: 100, collision_tries: 100 };
}

impl Tunables {
    /// What held before there were tunables ("argonaut"), and holds for those that an old encoding lacks.
    pub const LEGACY: Self = Self {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: 0,
        // Uniform, list, straw.
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4,
        chooseleaf_stable: 0,
        msr: None,
    };

    /// What is best for new clusters ("jewel").
    pub const OPTIMAL: Self = Self {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        chooseleaf_vary_r: 1,
        straw_calc_version: 1,
        // The above and straw2.
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5,
        chooseleaf_stable: 1,
        msr: None,
    };
}
