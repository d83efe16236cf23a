//! Tunables of rules.

/// Numbers of retries, and compatibility with historic flaws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket after a collision.
    pub choose_local_tries: u32,
    /// Retries in the same bucket with a permutation of its items.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top.
    pub choose_total_tries: u32,
    /// Whether chooseleaf tries only once below the chosen item.
    pub chooseleaf_descend_once: u32,
    /// Whether chooseleaf starts at another item for each attempt above (shifted right by one less).
    pub chooseleaf_vary_r: u8,
    /// Version of the straw length calculation.
    pub straw_calc_version: u8,
    /// Allowed bucket algorithms: bit n is algorithm n.
    pub allowed_bucket_algs: u32,
    /// Whether chooseleaf starts at the same item for each position.
    pub chooseleaf_stable: u8,
    /// Tunables of multi-step retry rules; missing in encodings for readers before Ceph 19.2.
    pub msr: Option<MsrTunables>,
}

/// Tunables of multi-step retry rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsrTunables {
    /// Attempts from the top.
    pub descents: u32,
    /// Attempts in place after a collision.
    pub collision_tries: u32,
}

impl MsrTunables {
    /// Values for maps without them.
    pub const DEFAULT: Self = Self { descents: 100, collision_tries: 100 };
}

impl Tunables {
    /// Values of the time before tunables ("argonaut"), also for those missing in an old encoding.
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

    /// Best values for new clusters ("jewel").
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
