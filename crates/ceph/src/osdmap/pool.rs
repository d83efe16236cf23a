//! Pools (ceph `src/osd/osd_types.{h,cc}`, pg_pool_t).

use super::intervals::IntervalSet;
use crate::hash;
use crate::types::{EVersion, Epoch, PgId, SnapContext, Utime};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Bits of [`Pool::flags`].
pub mod flag {
    /// The pool's id is hashed into its placement, so that pools do not overlap.
    pub const HASHPSPOOL: u64 = 1 << 0;
    /// The pool rejects writes.
    pub const FULL: u64 = 1 << 1;
    /// Objects of an erasure-coded pool may be overwritten.
    pub const EC_OVERWRITES: u64 = 1 << 2;
    /// The pool may not be deleted.
    pub const NODELETE: u64 = 1 << 4;
    /// The number of placement groups may not be changed.
    pub const NOPGCHANGE: u64 = 1 << 5;
    /// The size may not be changed.
    pub const NOSIZECHANGE: u64 = 1 << 6;
    /// The pool is full because of its quota.
    pub const FULL_QUOTA: u64 = 1 << 10;
    /// The pool will soon be full.
    pub const NEARFULL: u64 = 1 << 11;
    /// OSDs of the pool reject backfill.
    pub const BACKFILLFULL: u64 = 1 << 12;
    /// Clients manage the snapshots.
    pub const SELFMANAGED_SNAPS: u64 = 1 << 13;
    /// The monitors manage the snapshots.
    pub const POOL_SNAPS: u64 = 1 << 14;
    /// The pool's first placement groups are being created.
    pub const CREATING: u64 = 1 << 15;
    /// All operations of clients fail with EIO.
    pub const EIO: u64 = 1 << 16;
    /// The pool will be large, so it gets more placement groups from the start.
    pub const BULK: u64 = 1 << 17;
    /// Some shards of the erasure-coded pool never become primary.
    pub const EC_OPTIMIZATIONS: u64 = 1 << 19;
}

/// Names are hashed like in the kernel's dcache ([`Pool::object_hash`]).
pub const OBJECT_HASH_LINUX: u8 = 1;
/// Names are hashed with Robert Jenkins' function: the default ([`Pool::object_hash`]).
pub const OBJECT_HASH_RJENKINS: u8 = 2;

/// Returns the hash of a name; all ones for an unknown function (ceph `src/common/ceph_hash.cc`).
fn hash_name(kind: u8, name: &[u8]) -> u32 {
    match kind {
        OBJECT_HASH_LINUX => hash::linux_dcache(name),
        OBJECT_HASH_RJENKINS => hash::rjenkins(name),
        _ => u32::MAX,
    }
}

/// Redundancy scheme of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PoolKind {
    /// Whole copies.
    Replicated = 1,
    /// Shards of an erasure code.
    Erasure = 3,
}

/// Snapshot that the monitors manage (`pool_snap_info_t`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolSnap {
    /// Id.
    pub id: u64,
    /// Creation time.
    pub stamp: Utime,
    /// Name.
    pub name: String,
}

/// Last merge of placement groups (`pg_merge_meta_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgMerge {
    /// Group that was merged into another.
    pub source: PgId,
    /// Epoch in which it was ready for that.
    pub ready_epoch: Epoch,
    /// Its last epoch started.
    pub last_epoch_started: Epoch,
    /// Its last clean epoch.
    pub last_epoch_clean: Epoch,
    /// Version of the source group.
    pub source_version: EVersion,
    /// Version of the target group.
    pub target_version: EVersion,
}

/// Recording of used objects in a cache tier (`HitSet::Params`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HitSetParams {
    /// No recording.
    #[default]
    None,
    /// By their hashes.
    ExplicitHash,
    /// By their names.
    ExplicitObject,
    /// In a bloom filter.
    Bloom {
        /// False positives per million.
        fpp_micro: u32,
        /// Number of objects for which it is sized.
        target_size: u64,
        /// Seed of its hash.
        seed: u64,
    },
}

/// Value of a pool option (`pool_opts_t`).
#[derive(Debug, Clone, PartialEq)]
pub enum PoolOption {
    /// Text.
    Text(String),
    /// Integer.
    Int(i64),
    /// Floating-point number.
    Float(f64),
}

/// Failure domains that a stretched pool needs to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeeringCrush {
    /// Number of domains that must have a copy.
    pub bucket_count: u32,
    /// Number of domains over which copies are spread.
    pub bucket_target: u32,
    /// Bucket type of a domain.
    pub bucket_barrier: u32,
    /// Domain that must be among them, or [`crate::crush::ITEM_NONE`].
    pub mandatory_member: i32,
}

/// Pool (`pg_pool_t`).
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields for OSDs and monitors have Ceph's names")]
pub struct Pool {
    /// Version of the encoding, which is preserved: 29 (Nautilus to Squid, 30 if the pool is
    /// stretched) to 32 (Tentacle).
    pub version: u8,
    pub kind: PoolKind,
    /// Number of copies or shards.
    pub size: u8,
    /// Minimum number of copies or shards to serve the pool.
    pub min_size: u8,
    pub crush_rule: u8,
    /// Hash function of object names: see [`OBJECT_HASH_RJENKINS`].
    pub object_hash: u8,
    /// Number of placement groups.
    pub pg_num: u32,
    /// Number of distinct placements of placement groups.
    pub pgp_num: u32,
    pub last_change: Epoch,
    /// See [`flag`].
    pub flags: u64,
    pub snap_seq: u64,
    pub snap_epoch: Epoch,
    pub snaps: BTreeMap<u64, PoolSnap>,
    pub removed_snaps: IntervalSet,
    pub auid: u64,
    pub quota_max_bytes: u64,
    pub quota_max_objects: u64,
    pub tiers: BTreeSet<u64>,
    pub tier_of: i64,
    pub cache_mode: u8,
    /// Pool to which reads are redirected, or -1.
    pub read_tier: i64,
    /// Pool to which writes are redirected, or -1.
    pub write_tier: i64,
    pub properties: BTreeMap<String, String>,
    pub hit_set_params: HitSetParams,
    pub hit_set_period: u32,
    pub hit_set_count: u32,
    /// Stripe width of an erasure code in bytes; 0 in a replicated pool.
    pub stripe_width: u32,
    pub target_max_bytes: u64,
    pub target_max_objects: u64,
    pub cache_target_dirty_ratio_micro: u32,
    pub cache_target_dirty_high_ratio_micro: u32,
    pub cache_target_full_ratio_micro: u32,
    pub cache_min_flush_age: u32,
    pub cache_min_evict_age: u32,
    pub erasure_code_profile: String,
    pub last_force_op_resend_preluminous: Epoch,
    pub last_force_op_resend_prenautilus: Epoch,
    /// Requests from before this epoch must be resent.
    pub last_force_op_resend: Epoch,
    pub min_read_recency_for_promote: u32,
    pub min_write_recency_for_promote: u32,
    pub expected_num_objects: u64,
    pub use_gmt_hitset: bool,
    pub fast_read: bool,
    pub hit_set_grade_decay_rate: u32,
    pub hit_set_search_last_n: u32,
    /// Options by number.
    pub options: BTreeMap<i32, PoolOption>,
    /// Application metadata: application, key, value.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    pub create_time: Utime,
    pub pg_num_target: u32,
    pub pgp_num_target: u32,
    pub pg_num_pending: u32,
    /// 0 off, 1 warn, 2 on, 255 unknown.
    pub pg_autoscale_mode: u8,
    pub last_pg_merge: PgMerge,
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that never become primary, as bits, if [`flag::EC_OPTIMIZATIONS`] is set.
    pub nonprimary_shards: u128,
}

impl Default for Pool {
    /// Returns a replicated pool of one placement group and three copies, like a new one of Squid's monitors.
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            kind: PoolKind::Replicated,
            size: 3,
            min_size: 2,
            crush_rule: 0,
            object_hash: OBJECT_HASH_RJENKINS,
            pg_num: 1,
            pgp_num: 1,
            last_change: 0,
            flags: flag::HASHPSPOOL,
            snap_seq: 0,
            snap_epoch: 0,
            snaps: BTreeMap::new(),
            removed_snaps: IntervalSet::default(),
            auid: 0,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tiers: BTreeSet::new(),
            tier_of: -1,
            cache_mode: 0,
            read_tier: -1,
            write_tier: -1,
            properties: BTreeMap::new(),
            hit_set_params: HitSetParams::None,
            hit_set_period: 0,
            hit_set_count: 0,
            stripe_width: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target_dirty_ratio_micro: 400_000,
            cache_target_dirty_high_ratio_micro: 600_000,
            cache_target_full_ratio_micro: 800_000,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            erasure_code_profile: String::new(),
            last_force_op_resend_preluminous: 0,
            last_force_op_resend_prenautilus: 0,
            last_force_op_resend: 0,
            min_read_recency_for_promote: 0,
            min_write_recency_for_promote: 0,
            expected_num_objects: 0,
            use_gmt_hitset: true,
            fast_read: false,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            options: BTreeMap::new(),
            application_metadata: BTreeMap::new(),
            create_time: Utime::default(),
            pg_num_target: 1,
            pgp_num_target: 1,
            pg_num_pending: 1,
            pg_autoscale_mode: 0,
            last_pg_merge: PgMerge::default(),
            peering_crush: None,
            nonprimary_shards: 0,
        }
    }
}

/// Reduces `x` to `n` values with the smallest mask of ones that covers them. As `n` grows towards the next
/// power of two, values only move from the lower half to the upper (ceph `src/include/rados.h`, ceph_stable_mod).
fn stable_mod(x: u32, n: u32) -> u32 {
    let mask = n.checked_next_power_of_two().map_or(u32::MAX, |power| power - 1);
    if x & mask < n { x & mask } else { x & (mask >> 1) }
}

impl Pool {
    /// Version of new pools: that of all releases from Nautilus to Squid. They cannot decode a pool of
    /// Tentacle's version ([`Pool::NEWEST`]), which they mistake for version 30, with other fields.
    pub const VERSION: u8 = 29;
    /// Newest supported version, that of Tentacle.
    pub const NEWEST: u8 = 32;

    /// Returns whether later OSDs replace missing ones: copies have no numbers, but shards do.
    pub fn can_shift_osds(&self) -> bool {
        self.kind == PoolKind::Replicated
    }

    /// Returns whether the flag (see [`flag`]) is set.
    pub fn has_flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Returns the snapshots of the pool that the monitors manage.
    pub fn snap_context(&self) -> SnapContext {
        SnapContext { seq: self.snap_seq, snaps: self.snaps.keys().rev().copied().collect() }
    }

    /// Returns the hash of an object: of its locator key or, without one, of its name, together with its namespace.
    pub fn hash_object(&self, name: &[u8], key: &[u8], namespace: &[u8]) -> u32 {
        const SEPARATOR: u8 = 0o37;
        let name = if key.is_empty() { name } else { key };
        if namespace.is_empty() {
            return hash_name(self.object_hash, name);
        }
        let mut text: SmallVec<[u8; 256]> = SmallVec::with_capacity(namespace.len() + 1 + name.len());
        text.extend_from_slice(namespace);
        text.push(SEPARATOR);
        text.extend_from_slice(name);
        hash_name(self.object_hash, &text)
    }

    /// Returns the raw placement group of an object of this pool, whose id is `id`, with the full hash as its seed. A non-empty
    /// `key` is hashed instead of the name; a non-negative `hash` is used directly.
    pub fn object_pg(&self, id: i64, name: &[u8], key: &[u8], namespace: &[u8], hash: i64) -> PgId {
        let seed = match u32::try_from(hash) {
            Ok(hash) => hash,
            Err(_) => self.hash_object(name, key, namespace),
        };
        PgId { pool: id, seed }
    }

    /// Returns the actual placement group of a raw one.
    pub fn pg(&self, raw: PgId) -> PgId {
        PgId { seed: stable_mod(raw.seed, self.pg_num), ..raw }
    }

    /// Returns the input of CRUSH for a raw or an actual placement group (pg_pool_t::raw_pg_to_pps).
    pub(super) fn placement_seed(&self, pg: PgId) -> u32 {
        let seed = stable_mod(pg.seed, self.pgp_num);
        if self.has_flag(flag::HASHPSPOOL) {
            hash::crush_hash32_2(seed, pg.pool as u32)
        } else {
            seed.wrapping_add(pg.pool as u32)
        }
    }

    pub(super) fn is_nonprimary_shard(&self, shard: usize) -> bool {
        shard < 128 && self.nonprimary_shards >> shard & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stable_mod_moves_values_only_between_halves() {
        assert_eq!(
            (0..16).map(|x| stable_mod(x, 12)).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7]
        );
        for n in 1..200 {
            for x in (0..2000).chain([u32::MAX]) {
                let (before, after) = (stable_mod(x, n), stable_mod(x, n + 1));
                assert!(before < n);
                assert!(before == after || after == n);
            }
        }
        assert_eq!(stable_mod(7, 0), 0);
        assert_eq!(stable_mod(u32::MAX, u32::MAX), u32::MAX >> 1);
    }

    #[test]
    fn a_namespace_changes_the_hash_and_a_key_replaces_the_name() {
        let pool = Pool::default();
        let plain = pool.hash_object(b"object", b"", b"");
        assert_eq!(plain, hash::rjenkins(b"object"));
        assert_eq!(pool.hash_object(b"other", b"object", b""), plain);
        assert_eq!(pool.hash_object(b"object", b"", b"space"), hash::rjenkins(b"space\x1fobject"));
    }
}
