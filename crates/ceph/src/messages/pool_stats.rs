//! Usage and I/O statistics of pools.
//!
//! Source: ceph `src/messages/{MGetPoolStats,MGetPoolStatsReply}.h`, `src/osd/osd_types.cc` (`pool_stat_t`,
//! `object_stat_sum_t`, `store_statfs_t`).

use crate::types::Uuid;
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_msgr::types::{Payload, decode_service_head, encode_service_head, kind};
use onego_wire::{Decoded, Reader, Writer};

/// Requests the statistics of pools (`MGetPoolStats`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetPoolStats {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Names of the pools.
    pub pools: Vec<String>,
}

impl Payload for GetPoolStats {
    const KIND: u16 = kind::GET_POOL_STATS;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, 0);
        self.fsid.encode(w);
        self.pools.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        Ok(Self { fsid: Uuid::decode(r)?, pools: Vec::decode(r)? })
    }
}

/// Statistics of pools, by name (`MGetPoolStatsReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetPoolStatsReply {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Known pools.
    pub pools: Vec<(String, PoolStat)>,
    /// Whether the stores report usage by pool. Otherwise [`PoolStat::allocated`] is meaningless.
    pub per_pool: bool,
}

/// Statistics of a pool (`pool_stat_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "they have Ceph's names, and are documented there")]
pub struct PoolStat {
    pub num_bytes: u64,
    pub num_objects: u64,
    pub num_object_clones: u64,
    pub num_object_copies: u64,
    pub num_objects_missing_on_primary: u64,
    pub num_objects_degraded: u64,
    pub num_objects_unfound: u64,
    pub num_rd: u64,
    pub num_rd_kb: u64,
    pub num_wr: u64,
    pub num_wr_kb: u64,
    /// Allocated bytes of the stores for the data of all copies.
    pub allocated: u64,
    /// Bytes of data in the stores.
    pub stored: u64,
    pub compressed_allocated: u64,
    pub compressed_original: u64,
    /// Allocated bytes of the stores for omaps.
    pub omap_allocated: u64,
}

impl Payload for GetPoolStatsReply {
    const KIND: u16 = kind::GET_POOL_STATS_REPLY;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, 0);
        self.fsid.encode(w);
        w.count(self.pools.len());
        for (name, stat) in &self.pools {
            w.string(name);
            stat.encode(w);
        }
        w.bool(self.per_pool);
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        let fsid = Uuid::decode(r)?;
        let count = r.count(8, "pools")?;
        let pool = |r: &mut Reader<'_>| Ok((r.string("pool name")?, PoolStat::decode(r)?));
        let pools = (0..count).map(|_| pool(r)).collect::<Decoded<_>>()?;
        let per_pool = version >= 2 && r.bool("statistics of each pool")?;
        Ok(Self { fsid, pools, per_pool })
    }
}

impl Encode for PoolStat {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 7, 5, |w| {
            write_envelope(w, 2, 2, |w| {
                self.encode_sum(w);
                w.u32(0); // formerly sums by category
            });
            w.i64(0); // length of the log
            w.i64(0); // length of the log on disk
            w.i32(1); // OSDs up
            w.i32(1); // OSDs acting
            write_envelope(w, 1, 1, |w| {
                (0..3).for_each(|_| w.u64(0)); // total, free, reserved: not per pool
                w.u64(self.allocated);
                w.u64(self.stored);
                w.u64(0); // compressed
                w.u64(self.compressed_allocated);
                w.u64(self.compressed_original);
                w.u64(self.omap_allocated);
                w.u64(0); // metadata
            });
            w.u32(1); // number of reporting stores
        });
    }
}

impl PoolStat {
    /// Encodes `object_stat_sum_t`, version 20.
    fn encode_sum(&self, w: &mut Writer) {
        write_envelope(w, 20, 14, |w| {
            let zeros = |w: &mut Writer, count: usize| (0..count).for_each(|_| w.i64(0));
            w.u64(self.num_bytes);
            w.u64(self.num_objects);
            w.u64(self.num_object_clones);
            w.u64(self.num_object_copies);
            w.u64(self.num_objects_missing_on_primary);
            w.u64(self.num_objects_degraded);
            w.u64(self.num_objects_unfound);
            w.u64(self.num_rd);
            w.u64(self.num_rd_kb);
            w.u64(self.num_wr);
            w.u64(self.num_wr_kb);
            zeros(w, 6); // scrub errors, recovered objects, bytes and keys, shallow and deep scrub errors
            zeros(w, 11); // from dirty objects to promoted ones: for cache tiers only
            w.put(&[0; 4 * 4]); // modes of flushing and evicting
            zeros(w, 5); // pinned, missing, with legacy snapshots, with large omaps, manifests
            zeros(w, 3); // bytes and keys of omaps, which real clusters update rarely; repaired objects
        });
    }

    fn decode_sum(&mut self, r: &mut Reader<'_>) -> Decoded<()> {
        envelope(r, 20, "sum of a pool", |_, r| {
            for field in [
                &mut self.num_bytes,
                &mut self.num_objects,
                &mut self.num_object_clones,
                &mut self.num_object_copies,
                &mut self.num_objects_missing_on_primary,
                &mut self.num_objects_degraded,
                &mut self.num_objects_unfound,
                &mut self.num_rd,
                &mut self.num_rd_kb,
                &mut self.num_wr,
                &mut self.num_wr_kb,
            ] {
                *field = r.u64("number of a pool")?;
            }
            Ok(())
        })
    }

    fn decode_store(&mut self, r: &mut Reader<'_>) -> Decoded<()> {
        envelope(r, 1, "store of a pool", |_, r| {
            let mut skipped = 0;
            let Self { allocated, stored, compressed_allocated, compressed_original, omap_allocated, .. } =
                self;
            let mut unused = [0; 4];
            let [total, free, reserved, compressed] = &mut unused;
            for field in [
                total,
                free,
                reserved,
                allocated,
                stored,
                compressed,
                compressed_allocated,
                compressed_original,
                omap_allocated,
                &mut skipped,
            ] {
                *field = r.u64("bytes of a pool")?;
            }
            Ok(())
        })
    }
}

impl Decode for PoolStat {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 7, "statistics of a pool", |version, r| {
            let mut stat = Self::default();
            envelope(r, 2, "sums of a pool", |_, r| stat.decode_sum(r))?;
            r.i64("length of the log")?;
            r.i64("length of the log on disk")?;
            r.i32("OSDs up")?;
            r.i32("OSDs acting")?;
            // Before version 7, stores did not report usage by pool.
            if version >= 7 {
                stat.decode_store(r)?;
            }
            Ok(stat)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_survive_a_round_trip() {
        let stat = PoolStat {
            num_bytes: 1,
            num_objects: 2,
            num_object_clones: 3,
            num_object_copies: 4,
            num_objects_missing_on_primary: 5,
            num_objects_degraded: 6,
            num_objects_unfound: 7,
            num_rd: 8,
            num_rd_kb: 9,
            num_wr: 10,
            num_wr_kb: 11,
            allocated: 12,
            stored: 13,
            compressed_allocated: 14,
            compressed_original: 15,
            omap_allocated: 16,
        };
        let reply =
            GetPoolStatsReply { fsid: Uuid([3; 16]), pools: vec![("rbd".into(), stat)], per_pool: true };
        let (mut w, mut data) = (Writer::new(), List::new());
        reply.encode(&mut w, &mut data);
        let front = w.into_vec();
        assert_eq!(GetPoolStatsReply::decode(2, &front, List::new()), Ok(reply));
        for length in 0..front.len() {
            assert!(GetPoolStatsReply::decode(2, &front[..length], List::new()).is_err(), "{length} bytes");
        }
    }
}
