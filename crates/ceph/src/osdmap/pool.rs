//! Pools (ceph `src/osd/osd_types.{h,cc}`, pg_pool_t).

use super::intervals::IntervalSet;
use crate::hash;
use crate::types::{EVersion, Epoch, PgId, SnapContext, Utime};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Bits of [`Pool::flags`].
pub mod flag {
    /// The pool's id is hashed into its placement, so that pools do not lie on top of each other.
    pub const HASHPSPOOL: u64 = 1 << 0;
    /// The pool takes no more writes.
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
    /// OSDs of the pool take no more backfill.
    pub const BACKFILLFULL: u64 = 1 << 12;
    /// Clients manage the snapshots.
    pub const SELFMANAGED_SNAPS: u64 = 1 << 13;
    /// The monitors manage the snapshots.
    pub const POOL_SNAPS: u64 = 1 << 14;
    /// The pool's first placement groups are being created.
    pub const CREATING: u64 = 1 << 15;
    /// Every operation of a client fails with EIO.
    pub const EIO: u64 = 1 << 16;
    /// The pool will be large: more placement groups suit it from the start.
    pub const BULK: u64 = 1 << 17;
    /// An erasure-coded pool of which some shards never become primary.
    pub const EC_OPTIMIZATIONS: u64 = 1 << 19;
}

/// Names are hashed as the kernel's dcache does it ([`Pool::object_hash`]).
pub const OBJECT_HASH_LINUX: u8 = 1;
/// Names are hashed as Robert Jenkins does it: the default ([`Pool::object_hash`]).
pub const OBJECT_HASH_RJENKINS: u8 = 2;

/// The hash of a name, or all ones for a kind of hash that does not exist (ceph `src/common/ceph_hash.cc`).
fn hash_name(kind: u8, name: &[u8]) -> u32 {
    match kind {
        OBJECT_HASH_LINUX => hash::linux_dcache(name),
        OBJECT_HASH_RJENKINS => hash::rjenkins(name),
        _ => u32::MAX,
    }
}

/// How a pool keeps its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PoolKind {
    /// Whole copies.
    Replicated = 1,
    /// Shards of an erasure code.
    Erasure = 3,
}

/// A snapshot that the monitors manage (`pool_snap_info_t`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolSnap {
    /// Its id.
    pub id: u64,
    /// When it was taken.
    pub stamp: Utime,
    /// Its name.
    pub name: String,
}

/// The last merge of placement groups (`pg_merge_meta_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgMerge {
    /// The group that went.
    pub source: PgId,
    /// Epoch in which it was ready to.
    pub ready_epoch: Epoch,
    /// Its history.
    pub last_epoch_started: Epoch,
    /// Its history.
    pub last_epoch_clean: Epoch,
    /// Version of the group that went.
    pub source_version: EVersion,
    /// Version of the group that stayed.
    pub target_version: EVersion,
}

/// How the objects that were used are remembered in a cache tier (`HitSet::Params`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HitSetParams {
    /// Not at all.
    #[default]
    None,
    /// By their hashes.
    ExplicitHash,
    /// By their names.
    ExplicitObject,
    /// In a bloom filter.
    Bloom {
        /// False positives in a million.
        fpp_micro: u32,
        /// Objects for which it is sized.
        target_size: u64,
        /// Seed of its hash.
        seed: u64,
    },
}

/// The value of an option that is set on a pool (`pool_opts_t`).
#[derive(Debug, Clone, PartialEq)]
pub enum PoolOption {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
}

/// Over how many failure domains a stretched pool must lie to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeeringCrush {
    /// Domains that must have a copy.
    pub bucket_count: u32,
    /// Domains over which copies are spread.
    pub bucket_target: u32,
    /// The type of bucket that is a domain.
    pub bucket_barrier: u32,
    /// A domain that must be among them, or [`crate::crush::ITEM_NONE`].
    pub mandatory_member: i32,
}

/// A pool (`pg_pool_t`).
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields that only OSDs and monitors look at have Ceph's names")]
pub struct Pool {
    /// Version of the encoding in which it was read and is written again: 29 (Nautilus to Squid, 30 if the pool is
    /// stretched) to 32 (Tentacle).
    pub version: u8,
    pub kind: PoolKind,
    /// Copies or shards.
    pub size: u8,
    /// Copies or shards below which the pool is not served.
    pub min_size: u8,
    pub crush_rule: u8,
    /// The hash of objects' names: see [`OBJECT_HASH_RJENKINS`].
    pub object_hash: u8,
    /// Number of placement groups.
    pub pg_num: u32,
    /// Number of placement groups that are placed apart.
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
    /// Pool to which reads are sent instead, or -1.
    pub read_tier: i64,
    /// Pool to which writes are sent instead, or -1.
    pub write_tier: i64,
    pub properties: BTreeMap<String, String>,
    pub hit_set_params: HitSetParams,
    pub hit_set_period: u32,
    pub hit_set_count: u32,
    /// Bytes over which an erasure code is striped; 0 in a replicated pool.
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
    /// Epoch since which requests of before must be sent again.
    pub last_force_op_resend: Epoch,
    pub min_read_recency_for_promote: u32,
    pub min_write_recency_for_promote: u32,
    pub expected_num_objects: u64,
    pub use_gmt_hitset: bool,
    pub fast_read: bool,
    pub hit_set_grade_decay_rate: u32,
    pub hit_set_search_last_n: u32,
    /// Options by their number.
    pub options: BTreeMap<i32, PoolOption>,
    /// What applications say about the pool: application, key, value.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    pub create_time: Utime,
    pub pg_num_target: u32,
    pub pgp_num_target: u32,
    pub pg_num_pending: u32,
    /// 0 off, 1 warn, 2 on, 255 unknown.
    pub pg_autoscale_mode: u8,
    pub last_pg_merge: PgMerge,
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that never become primary, a bit each, if [`flag::EC_OPTIMIZATIONS`] is set.
    pub nonprimary_shards: u128,
}

impl Default for Pool {
    /// A replicated pool of one placement group and three copies, as the monitors of Squid would make it.
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

/// The smallest mask of ones that covers `n` values, and which of them `x` falls on: as `n` grows towards the next
/// power of two, values only move from the lower half to the upper (ceph `src/include/rados.h`, ceph_stable_mod).
fn stable_mod(x: u32, n: u32) -> u32 {
    let mask = n.checked_next_power_of_two().map_or(u32::MAX, |power| power - 1);
    if x & mask < n { x & mask } else { x & (mask >> 1) }
}

impl Pool {
    /// The version in which new pools are written: that of all releases from Nautilus to Squid. They cannot read what
    /// Tentacle writes among its own ([`Pool::NEWEST`]), as they take it for version 30, with other fields.
    pub const VERSION: u8 = 29;
    /// The newest version that is known: Tentacle's.
    pub const NEWEST: u8 = 32;

    /// Whether OSDs that are missing are left out of the order of copies, as those have no numbers; shards do.
    pub fn can_shift_osds(&self) -> bool {
        self.kind == PoolKind::Replicated
    }

    /// Is the flag (see [`flag`]) set?
    pub fn has_flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// The snapshots of the pool that the monitors manage.
    pub fn snap_context(&self) -> SnapContext {
        SnapContext { seq: self.snap_seq, snaps: self.snaps.keys().rev().copied().collect() }
    }

    /// The hash of an object: of its locator key or, if it has none, of its name, together with its namespace.
    pub fn hash_object(&self, name: &[u8], key: &[u8], namespace: &[u8]) -> u32 {
        /// Stands between a namespace and a name.
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

    /// The raw placement group of an object of this pool, whose id is `id`: its whole hash is the seed. `key`, if it
    /// is not empty, is hashed instead of the name, and `hash`, if it is not negative, is taken as it is.
    pub fn object_pg(&self, id: i64, name: &[u8], key: &[u8], namespace: &[u8], hash: i64) -> PgId {
        let seed = match u32::try_from(hash) {
            Ok(hash) => hash,
            Err(_) => self.hash_object(name, key, namespace),
        };
        PgId { pool: id, seed }
    }

    /// The actual placement group of a raw one.
    pub fn pg(&self, raw: PgId) -> PgId {
        PgId { seed: stable_mod(raw.seed, self.pg_num), ..raw }
    }

    /// What CRUSH is asked for in order to place a raw or an actual placement group (pg_pool_t::raw_pg_to_pps).
    pub(super) fn placement_seed(&self, pg: PgId) -> u32 {
        let seed = stable_mod(pg.seed, self.pgp_num);
        if self.has_flag(flag::HASHPSPOOL) {
            hash::crush_hash32_2(seed, pg.pool as u32)
        } else {
            seed.wrapping_add(pg.pool as u32)
        }
    }

    /// May this shard never become primary?
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
