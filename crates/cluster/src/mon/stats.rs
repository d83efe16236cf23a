//! Messages between clients and monitors that only a server has to know: statistics of pools, the managers' map, and
//! commands to a daemon itself.
//!
//! Source: ceph `src/messages/{MGetPoolStats,MGetPoolStatsReply,MMgrMap,MCommand,MCommandReply}.h`,
//! `src/osd/osd_types.cc` (`pool_stat_t`, `object_stat_sum_t`, `store_statfs_t`).

use super::space::PoolSpace;
use onego_buf::List;
use onego_ceph::messages::{Payload, kind};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::types::Uuid;
use onego_msgr::encoding::{Decode, Encode, write_envelope};
use onego_wire::{Decoded, Reader, Writer};

/// The head of messages to and from a monitor's services: a version, and two fields that monitors use among
/// themselves.
fn skip_head(r: &mut Reader<'_>) -> Decoded<()> {
    r.u64("service version")?;
    r.i16("session monitor")?;
    r.u64("session monitor's tid")?;
    Ok(())
}

fn encode_head(w: &mut Writer) {
    w.u64(0);
    w.i16(-1);
    w.u64(0);
}

/// Asks for the statistics of pools (`MGetPoolStats`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct GetPoolStats {
    pub(super) fsid: Uuid,
    pub(super) pools: Vec<String>,
}

impl Payload for GetPoolStats {
    const KIND: u16 = kind::GET_POOL_STATS;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_head(w);
        self.fsid.encode(w);
        self.pools.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        skip_head(r)?;
        Ok(Self { fsid: Uuid::decode(r)?, pools: Vec::decode(r)? })
    }
}

/// The statistics of pools, by name (`MGetPoolStatsReply`).
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct GetPoolStatsReply {
    pub(super) fsid: Uuid,
    pub(super) pools: Vec<(String, PoolSpace)>,
}

impl Payload for GetPoolStatsReply {
    const KIND: u16 = kind::GET_POOL_STATS_REPLY;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_head(w);
        self.fsid.encode(w);
        w.count(self.pools.len());
        for (name, space) in &self.pools {
            w.string(name);
            encode_pool_stat(w, space);
        }
        // The stores tell what each pool takes.
        w.bool(true);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        skip_head(r)?;
        Ok(Self { fsid: Uuid::decode(r)?, pools: Vec::new() })
    }
}

/// `pool_stat_t`, version 7.
fn encode_pool_stat(w: &mut Writer, space: &PoolSpace) {
    write_envelope(w, 7, 5, |w| {
        write_envelope(w, 2, 2, |w| {
            encode_stat_sum(w, space);
            w.u32(0); // sums by category, which are gone
        });
        w.i64(0); // length of the log
        w.i64(0); // of that on disk
        w.i32(1); // OSDs up
        w.i32(1); // OSDs acting
        write_envelope(w, 1, 1, |w| {
            (0..3).for_each(|_| w.u64(0)); // in all, free, reserved: no pool has that alone
            w.u64(space.used); // allocated
            w.u64(space.used); // stored
            (0..5).for_each(|_| w.u64(0)); // compressed (three), maps, metadata
        });
        w.u32(1); // stores that said it
    });
}

/// `object_stat_sum_t`, version 20.
fn encode_stat_sum(w: &mut Writer, space: &PoolSpace) {
    let usage = &space.usage;
    write_envelope(w, 20, 14, |w| {
        let zeros = |w: &mut Writer, count: usize| (0..count).for_each(|_| w.i64(0));
        w.u64(usage.bytes);
        w.u64(usage.objects);
        w.u64(usage.clones);
        w.u64(space.copies);
        w.i64(0); // missing on the primary
        w.u64(space.degraded);
        w.i64(0); // unfound
        w.u64(usage.reads);
        w.u64(usage.read_bytes >> 10);
        w.u64(usage.writes);
        w.u64(usage.written_bytes >> 10);
        zeros(w, 6); // scrub errors, recovered objects, bytes and keys, shallow and deep scrub errors
        zeros(w, 11); // from dirty objects to promoted ones: all of cache tiers
        w.put(&[0; 4 * 4]); // modes of flushing and evicting
        zeros(w, 5); // pinned, missing, with legacy snapshots, with large omaps, manifests
        zeros(w, 3); // bytes and keys of omaps, which real clusters count only now and then; repaired objects
    });
}

/// The map of the managers (`MMgrMap`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MgrMapMessage {
    pub(super) map: MgrMap,
}

impl Payload for MgrMapMessage {
    const KIND: u16 = kind::MGR_MAP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.map.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        Ok(Self { map: MgrMap::decode(&mut Reader::new(front))? })
    }
}

/// A command to the daemon itself, as `ceph tell` gives it (`MCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tell {
    pub(crate) fsid: Uuid,
    pub(crate) command: Vec<String>,
}

impl Payload for Tell {
    const KIND: u16 = kind::COMMAND;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.fsid.encode(w);
        self.command.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { fsid: Uuid::decode(r)?, command: Vec::decode(r)? })
    }
}

/// The outcome of a [`Tell`] (`MCommandReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TellReply {
    pub(crate) result: i32,
    pub(crate) status: String,
    pub(crate) output: List,
}

impl Payload for TellReply {
    const KIND: u16 = kind::COMMAND_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        w.i32(self.result);
        w.string(&self.status);
        data.append(self.output.clone());
    }

    fn decode(_: u16, front: &[u8], output: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { result: r.i32("result")?, status: r.string("status")?, output })
    }
}
