//! Encoding of pools (ceph `src/osd/osd_types.cc`, pg_pool_t::encode and pg_pool_t::decode).

use super::intervals::IntervalSet;
use super::pool::{HitSetParams, PeeringCrush, PgMerge, Pool, PoolKind, PoolOption, PoolSnap};
use crate::types::{EVersion, PgId, Utime};
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

impl Decode for Pool {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, Self::NEWEST, "pool", Self::decode_body)
    }
}

impl Pool {
    fn decode_body(version: u8, r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "pool";
        if version < Self::VERSION {
            return Err(DecodeError::TooOld { what: WHAT, version, oldest: Self::VERSION });
        }
        let mut pool = Self { version: version.min(Self::NEWEST), ..Self::default() };
        pool.kind = match r.u8(WHAT)? {
            1 => PoolKind::Replicated,
            3 => PoolKind::Erasure,
            kind => return Err(DecodeError::Invalid { what: "pool type", value: kind.into() }),
        };
        pool.size = r.u8(WHAT)?;
        pool.crush_rule = r.u8(WHAT)?;
        pool.object_hash = r.u8(WHAT)?;
        pool.pg_num = r.u32(WHAT)?;
        pool.pgp_num = r.u32(WHAT)?;
        r.u64(WHAT)?; // formerly numbers of localized placement groups
        pool.last_change = r.u32(WHAT)?;
        pool.snap_seq = r.u64(WHAT)?;
        pool.snap_epoch = r.u32(WHAT)?;
        pool.snaps = BTreeMap::decode(r)?;
        pool.removed_snaps = IntervalSet::decode(r)?;
        pool.auid = r.u64(WHAT)?;
        pool.flags = r.u64(WHAT)?;
        r.u32(WHAT)?; // formerly crash_replay_interval
        pool.min_size = r.u8(WHAT)?;
        pool.quota_max_bytes = r.u64(WHAT)?;
        pool.quota_max_objects = r.u64(WHAT)?;
        pool.decode_cache(r)?;
        pool.decode_rest(r)?;
        if version >= 30 {
            pool.decode_peering_crush(version, r)?;
        }
        if version >= 32 {
            pool.nonprimary_shards = u128::from(varint(r)?) | u128::from(varint(r)?) << 64;
        }
        Ok(pool)
    }

    /// Decodes the fields of cache tiers, from `tiers` on.
    fn decode_cache(&mut self, r: &mut Reader<'_>) -> Decoded<()> {
        const WHAT: &str = "pool cache";
        self.tiers = BTreeSet::decode(r)?;
        self.tier_of = r.i64(WHAT)?;
        self.cache_mode = r.u8(WHAT)?;
        self.read_tier = r.i64(WHAT)?;
        self.write_tier = r.i64(WHAT)?;
        self.properties = BTreeMap::decode(r)?;
        self.hit_set_params = HitSetParams::decode(r)?;
        self.hit_set_period = r.u32(WHAT)?;
        self.hit_set_count = r.u32(WHAT)?;
        self.stripe_width = r.u32(WHAT)?;
        self.target_max_bytes = r.u64(WHAT)?;
        self.target_max_objects = r.u64(WHAT)?;
        self.cache_target_dirty_ratio_micro = r.u32(WHAT)?;
        self.cache_target_full_ratio_micro = r.u32(WHAT)?;
        self.cache_min_flush_age = r.u32(WHAT)?;
        self.cache_min_evict_age = r.u32(WHAT)?;
        Ok(())
    }

    /// Decodes the rest of version 29, from `erasure_code_profile` on.
    fn decode_rest(&mut self, r: &mut Reader<'_>) -> Decoded<()> {
        const WHAT: &str = "pool";
        self.erasure_code_profile = String::decode(r)?;
        self.last_force_op_resend_preluminous = r.u32(WHAT)?;
        self.min_read_recency_for_promote = r.u32(WHAT)?;
        self.expected_num_objects = r.u64(WHAT)?;
        self.cache_target_dirty_high_ratio_micro = r.u32(WHAT)?;
        self.min_write_recency_for_promote = r.u32(WHAT)?;
        self.use_gmt_hitset = r.bool(WHAT)?;
        self.fast_read = r.bool(WHAT)?;
        self.hit_set_grade_decay_rate = r.u32(WHAT)?;
        self.hit_set_search_last_n = r.u32(WHAT)?;
        self.options = envelope(r, 2, "pool options", decode_options)?;
        self.last_force_op_resend_prenautilus = r.u32(WHAT)?;
        self.application_metadata = BTreeMap::decode(r)?;
        self.create_time = Utime::decode(r)?;
        self.pg_num_target = r.u32(WHAT)?;
        self.pgp_num_target = r.u32(WHAT)?;
        self.pg_num_pending = r.u32(WHAT)?;
        r.u64(WHAT)?; // two epochs that only pre-releases of Nautilus used
        self.last_force_op_resend = r.u32(WHAT)?;
        self.pg_autoscale_mode = r.u8(WHAT)?;
        self.last_pg_merge = PgMerge::decode(r)?;
        Ok(())
    }

    fn decode_peering_crush(&mut self, version: u8, r: &mut Reader<'_>) -> Decoded<()> {
        const WHAT: &str = "pool peering buckets";
        // Version 30 is only used for stretched pools and always has it.
        if version == 30 || r.bool(WHAT)? {
            self.peering_crush = Some(PeeringCrush {
                bucket_count: r.u32(WHAT)?,
                bucket_target: r.u32(WHAT)?,
                bucket_barrier: r.u32(WHAT)?,
                mandatory_member: r.i32(WHAT)?,
            });
        }
        Ok(())
    }
}

impl Encode for Pool {
    fn encode(&self, w: &mut Writer) {
        let version = self.written_version();
        write_envelope(w, version, 5, |w| {
            w.u8(self.kind as u8);
            w.u8(self.size);
            w.u8(self.crush_rule);
            w.u8(self.object_hash);
            w.u32(self.pg_num);
            w.u32(self.pgp_num);
            w.u64(0);
            w.u32(self.last_change);
            w.u64(self.snap_seq);
            w.u32(self.snap_epoch);
            self.snaps.encode(w);
            self.removed_snaps.encode(w);
            w.u64(self.auid);
            w.u64(self.flags);
            w.u32(0);
            w.u8(self.min_size);
            w.u64(self.quota_max_bytes);
            w.u64(self.quota_max_objects);
            self.encode_cache(w);
            self.encode_rest(w);
            if version > 30 {
                w.bool(self.peering_crush.is_some());
            }
            if let Some(peering) = self.peering_crush {
                w.u32(peering.bucket_count);
                w.u32(peering.bucket_target);
                w.u32(peering.bucket_barrier);
                w.i32(peering.mandatory_member);
            }
            if version >= 32 {
                write_varint(w, self.nonprimary_shards as u64);
                write_varint(w, (self.nonprimary_shards >> 64) as u64);
            }
        });
    }
}

impl Pool {
    /// Returns the version to encode: stretched pools had their own before Tentacle.
    fn written_version(&self) -> u8 {
        match (self.version, self.peering_crush) {
            (29 | 30, None) => 29,
            (29 | 30, Some(_)) => 30,
            (version, _) => version,
        }
    }

    fn encode_cache(&self, w: &mut Writer) {
        self.tiers.encode(w);
        w.i64(self.tier_of);
        w.u8(self.cache_mode);
        w.i64(self.read_tier);
        w.i64(self.write_tier);
        self.properties.encode(w);
        self.hit_set_params.encode(w);
        w.u32(self.hit_set_period);
        w.u32(self.hit_set_count);
        w.u32(self.stripe_width);
        w.u64(self.target_max_bytes);
        w.u64(self.target_max_objects);
        w.u32(self.cache_target_dirty_ratio_micro);
        w.u32(self.cache_target_full_ratio_micro);
        w.u32(self.cache_min_flush_age);
        w.u32(self.cache_min_evict_age);
    }

    fn encode_rest(&self, w: &mut Writer) {
        w.string(&self.erasure_code_profile);
        w.u32(self.last_force_op_resend_preluminous);
        w.u32(self.min_read_recency_for_promote);
        w.u64(self.expected_num_objects);
        w.u32(self.cache_target_dirty_high_ratio_micro);
        w.u32(self.min_write_recency_for_promote);
        w.bool(self.use_gmt_hitset);
        w.bool(self.fast_read);
        w.u32(self.hit_set_grade_decay_rate);
        w.u32(self.hit_set_search_last_n);
        write_envelope(w, 2, 1, |w| self.options.encode(w));
        w.u32(self.last_force_op_resend_prenautilus);
        self.application_metadata.encode(w);
        self.create_time.encode(w);
        w.u32(self.pg_num_target);
        w.u32(self.pgp_num_target);
        w.u32(self.pg_num_pending);
        w.u64(0);
        w.u32(self.last_force_op_resend);
        w.u8(self.pg_autoscale_mode);
        self.last_pg_merge.encode(w);
    }
}

impl Decode for PoolSnap {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "pool snapshot", |_, r| {
            Ok(Self {
                id: r.u64("pool snapshot id")?,
                stamp: Utime::decode(r)?,
                name: r.string("pool snapshot name")?,
            })
        })
    }
}

impl Encode for PoolSnap {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 2, 2, |w| {
            w.u64(self.id);
            self.stamp.encode(w);
            w.string(&self.name);
        });
    }
}

impl Decode for PgMerge {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "pg merge";
        envelope(r, 1, WHAT, |_, r| {
            Ok(Self {
                source: PgId::decode(r)?,
                ready_epoch: r.u32(WHAT)?,
                last_epoch_started: r.u32(WHAT)?,
                last_epoch_clean: r.u32(WHAT)?,
                source_version: EVersion::decode(r)?,
                target_version: EVersion::decode(r)?,
            })
        })
    }
}

impl Encode for PgMerge {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            self.source.encode(w);
            w.u32(self.ready_epoch);
            w.u32(self.last_epoch_started);
            w.u32(self.last_epoch_clean);
            self.source_version.encode(w);
            self.target_version.encode(w);
        });
    }
}

impl Decode for HitSetParams {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "hit set";
        envelope(r, 1, WHAT, |_, r| {
            let kind = r.u8(WHAT)?;
            match kind {
                0 => Ok(Self::None),
                1 => envelope(r, 1, WHAT, |_, _| Ok(Self::ExplicitHash)),
                2 => envelope(r, 1, WHAT, |_, _| Ok(Self::ExplicitObject)),
                3 => envelope(r, 1, WHAT, |_, r| {
                    Ok(Self::Bloom { fpp_micro: r.u32(WHAT)?, target_size: r.u64(WHAT)?, seed: r.u64(WHAT)? })
                }),
                _ => Err(DecodeError::Invalid { what: "hit set type", value: kind.into() }),
            }
        })
    }
}

impl Encode for HitSetParams {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| match *self {
            Self::None => w.u8(0),
            Self::ExplicitHash => {
                w.u8(1);
                write_envelope(w, 1, 1, |_| ());
            }
            Self::ExplicitObject => {
                w.u8(2);
                write_envelope(w, 1, 1, |_| ());
            }
            Self::Bloom { fpp_micro, target_size, seed } => {
                w.u8(3);
                write_envelope(w, 1, 1, |w| {
                    w.u32(fpp_micro);
                    w.u64(target_size);
                    w.u64(seed);
                });
            }
        });
    }
}

fn decode_options(version: u8, r: &mut Reader<'_>) -> Decoded<BTreeMap<i32, PoolOption>> {
    const WHAT: &str = "pool option";
    let n = r.count(8, WHAT)?;
    let mut options = BTreeMap::new();
    for _ in 0..n {
        let key = r.i32(WHAT)?;
        let value = match r.i32(WHAT)? {
            0 => PoolOption::Text(r.string(WHAT)?),
            1 if version >= 2 => PoolOption::Int(r.i64(WHAT)?),
            1 => PoolOption::Int(r.i32(WHAT)?.into()),
            2 => PoolOption::Float(r.f64(WHAT)?),
            kind => return Err(DecodeError::Invalid { what: "pool option type", value: kind as u64 }),
        };
        options.insert(key, value);
    }
    Ok(options)
}

impl Encode for PoolOption {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Text(text) => {
                w.i32(0);
                w.string(text);
            }
            Self::Int(value) => {
                w.i32(1);
                w.i64(*value);
            }
            Self::Float(value) => {
                w.i32(2);
                w.f64(*value);
            }
        }
    }
}

/// Decodes a number of seven bits per byte, lowest first; the top bit is set unless it is the last (ceph `src/include/denc.h`, denc_varint).
fn varint(r: &mut Reader<'_>) -> Decoded<u64> {
    const WHAT: &str = "varint";
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = r.u8(WHAT)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError::Invalid { what: WHAT, value })
}

fn write_varint(w: &mut Writer, mut value: u64) {
    while value > 0x7f {
        w.u8(value as u8 | 0x80);
        value >>= 7;
    }
    w.u8(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_survive_the_wire_in_every_version() {
        let peering =
            PeeringCrush { bucket_count: 2, bucket_target: 3, bucket_barrier: 8, mandatory_member: -5 };
        for (version, peering_crush, nonprimary_shards, written) in [
            (29, None, 0, 29),
            (29, Some(peering), 0, 30),
            (31, Some(peering), 0, 31),
            (32, None, 1 << 127 | 0x1234, 32),
        ] {
            let mut pool = Pool { version, peering_crush, nonprimary_shards, ..Pool::default() };
            pool.options.insert(1, PoolOption::Int(-3));
            pool.options.insert(2, PoolOption::Float(0.5));
            pool.options.insert(9, PoolOption::Text("lz4".into()));
            pool.hit_set_params = HitSetParams::Bloom { fpp_micro: 1, target_size: 2, seed: 3 };
            let bytes = pool.to_bytes();
            assert_eq!(bytes[0], written);
            pool.version = written;
            assert_eq!(Pool::from_bytes(&bytes), Ok(pool));
        }
    }
}
